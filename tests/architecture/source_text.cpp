#include "ferrite/tests/architecture/source_text.h"

#include <fstream>
#include <iterator>

#include "ferrite/tests/paths.h"

namespace ferrite::test {

std::vector<SourceFile> source_files() {
  namespace fs = std::filesystem;
  const fs::path root = source_dir();
  std::vector<SourceFile> files;
  const auto add = [&](const fs::path& path) {
    const auto extension = path.extension();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh")
      return;
    std::ifstream in(path, std::ios::binary);
    files.push_back(
        {path.lexically_relative(root).generic_string(), {std::istreambuf_iterator<char>(in), {}}});
  };
  for (const char* folder : {"core", "kernels", "autograd", "ops", "nn", "optim", "parallel",
                             "data", "metrics", "examples", "benchmarks", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) add(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(root)) add(entry.path());
  return files;
}

std::string without_comments(std::string_view text) {
  enum class State { code, line_comment, block_comment, string, character };
  State state = State::code;
  std::string out(text);
  for (size_t i = 0; i < out.size(); ++i) {
    const char c = out[i];
    const char next = i + 1 < out.size() ? out[i + 1] : '\0';
    switch (state) {
      case State::code:
        if (c == '/' && (next == '/' || next == '*')) {
          state = next == '/' ? State::line_comment : State::block_comment;
          out[i] = out[i + 1] = ' ';
          ++i;
        } else if (c == '"') {
          state = State::string;
        } else if (c == '\'') {
          state = State::character;
        }
        break;
      case State::line_comment:
        if (c == '\n') {
          state = State::code;
        } else {
          out[i] = ' ';
        }
        break;
      case State::block_comment:
        if (c == '*' && next == '/') {
          state = State::code;
          out[i] = out[i + 1] = ' ';
          ++i;
        } else if (c != '\n') {
          out[i] = ' ';
        }
        break;
      case State::string:
      case State::character:
        if (c == '\\') {
          ++i;
        } else if (c == '\n' || c == (state == State::string ? '"' : '\'')) {
          // A literal ends with its line: digit separators and raw strings cannot derail the scan.
          state = State::code;
        }
        break;
    }
  }
  return out;
}

}  // namespace ferrite::test
