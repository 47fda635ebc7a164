#include "ferrite/tests/architecture/public_headers.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ferrite/tests/paths.h"

using ferrite::test::check_public_headers;
using ferrite::test::SourceFile;

namespace {

// What is wrong with a list where nn/a.h, which users include, includes core/b.h.
std::vector<std::string> found(const std::string& users, const std::string& headers) {
  const std::vector<SourceFile> files = {
      {"nn/a.h", "#include <vector>\n\n#include \"ferrite/core/b.h\"\n"},
      {"nn/a.cpp", "#include \"ferrite/nn/c.h\"\n"},
      {"nn/c.h", "// #include \"ferrite/nn/d.h\"\n"},
      {"core/b.h", ""}};
  return check_public_headers(
      "# Text.\n[included by users]\n" + users + "\n\n[included by public headers]\n" + headers,
      files);
}

}  // namespace

TEST_CASE("cmake/public_headers.txt lists what public headers include") {
  std::ifstream in(ferrite::test::source_dir() + "/cmake/public_headers.txt");
  const std::string list{std::istreambuf_iterator<char>(in), {}};
  REQUIRE(list.size() > 1000);
  for (const std::string& message : check_public_headers(list, ferrite::test::source_files()))
    FAIL_CHECK(message);
}

TEST_CASE("a header that is public without being listed is named, and so is one listed in vain") {
  CHECK(found("nn/a.h\n", "core/b.h\n").empty());
  CHECK(found("nn/a.h\nnn/c.h\ncore/b.h\n", "").empty());
  const auto accident = found("nn/a.h\n", "");
  REQUIRE(accident.size() == 1);
  CHECK(accident[0].starts_with("core/b.h is not public, but nn/a.h, which is, includes it: "));
  const auto vain = found("nn/a.h\n", "core/b.h\nnn/c.h\n");
  REQUIRE(vain.size() == 1);
  CHECK(vain[0].starts_with("nn/c.h is included by no public header any more"));
  const auto gone = found("nn/a.h\nnn/e.h\n", "core/b.h\n");
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].starts_with("nn/e.h is listed in cmake/public_headers.txt, but does not exist"));
  CHECK(found("nn/a.h\nnn/a.h\n", "core/b.h\n") ==
        std::vector<std::string>{"nn/a.h is listed twice"});
}
