#include "ferrite/data/files_of_dataset.h"

#include <fmt/format.h>

#include "ferrite/core/error.h"

namespace ferrite::data {

std::filesystem::path find_file(const FileSearch& search, const std::vector<std::string>& names) {
  std::string folders;
  for (const std::string& folder : search.folders) {
    const std::filesystem::path where = folder.empty() ? search.root : search.root / folder;
    for (const std::string& name : names) {
      std::error_code ignored;
      if (std::filesystem::is_regular_file(where / name, ignored)) return where / name;
    }
    folders += (folders.empty() ? "'" : ", '") + where.string() + "'";
  }
  fail<IoError>(search.op, "found no {} in {}; download the files from {} and name their folder",
                fmt::join(names, " or "), folders, search.source);
}

}  // namespace ferrite::data
