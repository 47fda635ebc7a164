// The table of ops, from which other tests take all ops there are, has them all.
#include "ferrite/tests/ops/op_table.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "ferrite/tests/paths.h"

using namespace ferrite;

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// `text` without what is not for users.
std::string without_details(std::string text) {
  const std::string last = "}  // namespace detail";
  for (std::size_t begin; (begin = text.find("namespace detail {")) != std::string::npos;)
    text.erase(begin, text.find(last, begin) + last.size() - begin);
  return text;
}

std::string without_private(const std::string& header) {
  return header.substr(0, header.find("\n private:"));
}

std::string read_table() {
  std::string table;
  const auto folder = std::filesystem::path(test::source_dir()) / "tests/ops";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("op_table_") &&
        entry.path().filename() != "op_table_test.cpp")
      table += read(entry.path());
  // Second names, and what takes no tensor, are compared with the first names there.
  return table + read(folder / "aliases_test.cpp");
}

std::set<std::string> names_in(const std::string& text, const std::regex& pattern) {
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    names.insert((*it)[1]);
  return names;
}

}  // namespace

TEST_CASE("every function of ferrite.h that gives tensors is called by the table") {
  // Functions of ops/*.h at the start of a line that return tensors; ferrite.h says which headers
  // are for users.
  const std::regex header("#include \"ferrite/(ops/[a-z_]+\\.h)\"");
  const std::regex function(
      "\n(?:inline )?(?:const )?"
      "(?:Tensor&?|std::vector<Tensor>|ValuesIndices|std::pair<Tensor, Tensor>|bool) "
      "([a-z_0-9]+)\\(");
  const std::filesystem::path root = test::source_dir();
  const std::set<std::string> called = names_in(read_table(), std::regex("\\b([a-z_0-9]+)\\b"));

  // Takes bytes and gives floats, unlike the rest: augment_test.cpp; no operation:
  // autocast_test.cpp; takes integers alone: integer_types_test.cpp.
  const std::set<std::string> apart{"augment", "is_autocast_enabled", "bitwise_left_shift",
                                    "bitwise_right_shift"};
  std::size_t functions = 0;
  for (const std::string& name : names_in(read(root / "ferrite.h"), header))
    for (const std::string& op : names_in(without_details(read(root / name)), function)) {
      ++functions;
      CHECK_MESSAGE((called.contains(op) || apart.contains(op)), name << ": " << op);
    }
  CHECK(functions > 150);
}

TEST_CASE("every member of Tensor that gives a tensor is called by the table") {
  const std::string header = read(std::filesystem::path(test::source_dir()) / "core/tensor.h");
  const std::size_t begin = header.find("// ---- Copies and conversions"),
                    end = header.find(" private:", begin);
  REQUIRE(end < header.size());
  const std::set<std::string> members = names_in(
      header.substr(begin, end - begin), std::regex("\n  (?:const )?Tensor&? ([a-z_0-9]+)\\("));
  const std::set<std::string> called = names_in(read_table(), std::regex("\\.([a-z_0-9]+)\\("));
  // They go to other devices than the table's: transfer_test.cpp; take no values of the tensor:
  // tests/api/tensor_values_test.cpp.
  const std::set<std::string> apart{"cuda",      "pin_memory", "new_empty", "new_full",
                                    "new_zeros", "new_ones",   "type_as"};
  for (const std::string& name : members)
    CHECK_MESSAGE((called.contains(name) || apart.contains(name)), name);
  CHECK(members.size() > 40);
}

TEST_CASE("every method that stands for a function calls it, and is among libtorch's lines") {
  const std::filesystem::path root = test::source_dir();
  const std::string header = without_private(read(root / "core/tensor_methods.h")) +
                             without_private(read(root / "core/in_place_methods.h")),
                    source = read(root / "ops/tensor_methods.cpp") +
                             read(root / "ops/tensor_methods_unary.cpp") +
                             read(root / "ops/tensor_methods_linalg.cpp") +
                             read(root / "ops/tensor_methods_composite.cpp"),
                    aliases = read(root / "ops/aliases.h"),
                    lines = read(root / "tests/api/tensor_lines_test.cpp") +
                            read(root / "tests/api/in_place_lines_test.cpp") +
                            read(root / "tests/ops/aliases_test.cpp");
  const std::set<std::string> other_names{"sum_to_size", "split_with_sizes", "inverse", "pinverse",
                                          "logdet",      "adjoint",          "dist"};
  // Those that only work in place call no function of their name.
  const auto is_alias = [&](std::string name) {
    if (name.ends_with("_")) name.pop_back();
    return aliases.find("Tensor " + name + "(") != std::string::npos;
  };
  const std::set<std::string> methods =
      names_in(header, std::regex("\n  (?:const )?[A-Za-z:<>]+&? ([a-z_0-9]+)\\(.*(?:const;|,\n)"));
  for (const std::string& name : methods) {
    CAPTURE(name);
    CHECK((source.find("ferrite::" + name + "(") != std::string::npos ||
           source.find("ferrite::linalg::" + name + "(") != std::string::npos ||
           name.ends_with("_") || is_alias(name) || other_names.contains(name)));
    CHECK((lines.find("." + name + "(") != std::string::npos ||
           lines.find("&Tensor::" + name) != std::string::npos));
  }
  CHECK(methods.size() > 130);
}
