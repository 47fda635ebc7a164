#include "ferrite/tests/architecture/one_definition.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <regex>

namespace ferrite::test {

namespace {

// What the programs of several folders include: these count into every program.
constexpr std::string_view kShared[] = {"tests/support", "tests/kit", "examples/common"};

// The folder whose sources are linked into one program; "" for the library and what is shared.
std::string program_of(const std::string& path) {
  const auto first = path.find('/');
  const std::string head = path.substr(0, first);
  if (head != "tests" && head != "examples" && head != "benchmarks") return "";
  const std::string folder = path.substr(0, path.find('/', first + 1));
  return std::ranges::find(kShared, folder) == std::end(kShared) ? folder : "";
}

// The text without preprocessor lines and literals, which may contain unbalanced braces.
std::string without_literals(const std::string& code) {
  static const std::regex kLiterals(
      R"re(^[ \t]*#(?:\\\n|[^\n])*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])')re",
      std::regex::multiline);
  return std::regex_replace(code, kLiterals, " ");
}

}  // namespace

std::vector<std::string> defined_types(std::string_view text) {
  static const std::regex kNamespace(R"((?:^|[;{}\s])namespace\s*([\w:]*)\s*$)");
  static const std::regex kType(
      R"((?:^|[;{}>\s])(?:class|struct|enum class|enum|union)\s+(?:alignas\([^)]*\)\s*|\[\[\w+\]\]\s*)*(\w+)(?:\s+final)?\s*(?::[^:][^;]*)?$)");

  std::vector<std::string> found;
  const std::string code = without_literals(without_comments(text));
  struct Scope {
    bool is_namespace;
    std::string name;  // of all enclosing namespaces; empty in anonymous ones
  };
  std::vector<Scope> scopes = {{true, "::"}};
  size_t begin = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i] == ';' || code[i] == '}') {
      if (code[i] == '}' && scopes.size() > 1) scopes.pop_back();
      begin = i + 1;
    }
    if (code[i] != '{') continue;
    const std::string head = code.substr(begin, i - begin);
    begin = i + 1;
    const Scope outer = scopes.back();
    std::smatch match;
    if (std::regex_search(head, match, kNamespace)) {
      const bool anonymous = outer.name.empty() || match[1].length() == 0;
      scopes.push_back({true, anonymous ? "" : outer.name + match[1].str() + "::"});
      continue;
    }
    if (outer.is_namespace && !outer.name.empty() && std::regex_search(head, match, kType))
      found.push_back(outer.name.substr(2) + match[1].str());
    scopes.push_back({false, ""});
  }
  return found;
}

std::vector<std::string> doubled_definitions(std::span<const SourceFile> files) {
  std::map<std::string, std::map<std::string, std::string>> first;  // program, type: file
  std::vector<std::string> doubled;
  const auto look = [&](bool everywhere) {
    for (const auto& [path, text] : files) {
      const std::string program = program_of(path);
      if (program.empty() != everywhere || path.starts_with("tests/install/")) continue;
      for (const std::string& type : defined_types(text)) {
        const auto [it, added] = first[program].emplace(type, path);
        if (!added && it->second != path)
          doubled.push_back(type + ": defined in " + it->second + " and in " + path);
        if (everywhere) continue;
        if (const auto other = first[""].find(type); other != first[""].end())
          doubled.push_back(type + ": defined in " + other->second + " and in " + path);
      }
    }
  };
  look(true);
  look(false);
  return doubled;
}

}  // namespace ferrite::test
