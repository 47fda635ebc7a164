#include "examples/common/report.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/error.h"

namespace examples {

void Report::add_epoch(nlohmann::json epoch) {
  root_["epochs"].push_back(std::move(epoch));
  write();
}

void Report::write() const {
  if (path_.empty()) return;
  const std::filesystem::path path(path_), temporary(path_ + ".tmp");
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  std::ofstream file(temporary);
  file << root_.dump(2) << '\n';
  file.close();
  FERRITE_CHECK(file, ferrite::IoError, "report", "cannot write {}", temporary.string());
  std::filesystem::rename(temporary, path);
}

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace examples
