#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::test {

// A source file of the tree.
struct SourceFile {
  std::string path;  // below the repository root, with forward slashes
  std::string text;
};

// All C++ and CUDA sources of the tree.
std::vector<SourceFile> source_files();

// Blanks out comments, keeping line breaks; string and character literals are left as they are.
std::string without_comments(std::string_view text);

}  // namespace ferrite::test
