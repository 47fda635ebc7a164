#include "ferrite/tests/architecture/public_headers.h"

#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace ferrite::test {

namespace {

std::vector<std::string> ferrite_includes(std::string_view text) {
  static const std::regex kInclude(R"re((?:^|\n)[ \t]*#[ \t]*include[ \t]*["<]ferrite/([^">]+))re");
  const std::string code = without_comments(text);
  std::vector<std::string> found;
  for (std::sregex_iterator it(code.begin(), code.end(), kInclude), end; it != end; ++it) {
    const std::string header = (*it)[1];
    // The emulator's builds alone include its headers, which are installed with it.
    if (!header.starts_with("emulator/")) found.push_back(header);
  }
  return found;
}

}  // namespace

std::vector<std::string> check_public_headers(std::string_view list,
                                              std::span<const SourceFile> files) {
  std::vector<std::string> wrong;
  std::map<std::string, bool> listed;  // whether another has to include it
  std::istringstream lines{std::string(list)};
  bool by_headers = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) by_headers = line == "[included by public headers]";
    if (line.empty() || line.starts_with('#') || line.starts_with('[')) continue;
    if (!listed.emplace(line, by_headers).second) wrong.push_back(line + " is listed twice");
  }

  std::set<std::string> existing, included;
  std::map<std::string, std::string> unlisted;  // header: what includes it
  for (const auto& [path, text] : files) {
    existing.insert(path);
    if (!listed.contains(path)) continue;
    for (const std::string& header : ferrite_includes(text)) {
      included.insert(header);
      if (!listed.contains(header)) unlisted.emplace(header, path);
    }
  }
  for (const auto& [header, by] : unlisted)
    wrong.push_back(header + " is not public, but " + by +
                    ", which is, includes it: declare what is needed and include it in a source "
                    "file, or, if users are to have it, add it to cmake/public_headers.txt");
  for (const auto& [header, needs_includer] : listed) {
    if (!existing.contains(header)) {
      wrong.push_back(header + " is listed in cmake/public_headers.txt, but does not exist");
    } else if (needs_includer && !included.contains(header)) {
      wrong.push_back(header +
                      " is included by no public header any more: remove it from "
                      "cmake/public_headers.txt");
    }
  }
  return wrong;
}

}  // namespace ferrite::test
