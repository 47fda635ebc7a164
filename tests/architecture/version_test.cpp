#include "ferrite/version.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "ferrite/tests/paths.h"

using ferrite::kVersion;

namespace {

// The text of a file of the source tree; empty if there is none.
std::string text_of(const char* path) {
  std::ifstream in(ferrite::test::source_dir() + "/" + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool has(const std::string& text, const std::string& line) {
  return text.find('\n' + line + '\n') != std::string::npos ||
         text.find('\n' + line + ' ') != std::string::npos;
}

}  // namespace

TEST_CASE("the version is the one of the macros, in headers and in the library") {
  const std::string version = std::to_string(FERRITE_VERSION_MAJOR) + '.' +
                              std::to_string(FERRITE_VERSION_MINOR) + '.' +
                              std::to_string(FERRITE_VERSION_PATCH);
  CHECK(version == FERRITE_VERSION);
  CHECK(version == kVersion);
  CHECK(version == ferrite::version());
}

TEST_CASE("files that name the version name this one") {
  const std::string version = kVersion;
  CHECK(has(text_of("CITATION.cff"), "version: " + version));
  CHECK(has(text_of("packaging/vcpkg/ferrite/vcpkg.json"), "  \"version\": \"" + version + "\","));
  CHECK(has(text_of("CHANGELOG.md"), "## [" + version + "]"));
  CHECK(has(text_of(("docs/releases/" + version + ".md").c_str()), "Tag `v" + version + "`,"));
}
