// Finding a data set's files on disk.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::data {

/// Where a data set's files may lie and where they come from.
struct FileSearch {
  std::string_view op;               ///< for errors
  std::filesystem::path root;        ///< what the user named
  std::vector<std::string> folders;  ///< below root, tried in this order
  std::string_view source;           ///< where to get the files
};

/// The first regular file folder/name, over folders, then names. IoError listing what was looked
/// for, and where to get it, if there is none.
std::filesystem::path find_file(const FileSearch& search, const std::vector<std::string>& names);

}  // namespace ferrite::data
