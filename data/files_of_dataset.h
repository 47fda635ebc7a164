// Finding a data set's files on disk.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::data {

/// Where a data set's files may be, and where to download them.
struct FileSearch {
  std::string_view op;               ///< for errors
  std::filesystem::path root;        ///< given by the user
  std::vector<std::string> folders;  ///< below root, tried in this order
  std::string_view source;           ///< where to download the files
};

/// The first regular file folder/name, over folders, then names. If there is none, IoError listing
/// the paths tried and the download source.
std::filesystem::path find_file(const FileSearch& search, const std::vector<std::string>& names);

}  // namespace ferrite::data
