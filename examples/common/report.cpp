#include "examples/common/report.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/error.h"
#include "examples/common/folder.h"

namespace examples {

Report::Report(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  make_writable_folder(folder.empty() ? "." : folder, "--report");
}

void Report::add_epoch(nlohmann::json epoch) {
  root_["epochs"].push_back(std::move(epoch));
  write();
}

void Report::write() const {
  if (path_.empty()) return;
  const std::filesystem::path path(path_), temporary(path_ + ".tmp");
  std::ofstream file(temporary);
  file << root_.dump(2) << '\n';
  file.close();
  FERRITE_CHECK(file, ferrite::IoError, "--report", "cannot write '{}'", temporary.string());
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  FERRITE_CHECK(!error, ferrite::IoError, "--report", "cannot replace '{}': {}", path_,
                error.message());
}

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace examples
