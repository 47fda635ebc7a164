// What a training run leaves behind for other programs: a JSON file, written anew each epoch.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "examples/common/training_options.h"

namespace examples {

class Report {
 public:
  /// Writes nothing where `path` is empty; else makes its folder, or throws IoError at once.
  explicit Report(std::string path);

  void set(const std::string& key, nlohmann::json value) { root_[key] = std::move(value); }
  /// Appends one epoch's figures and writes the file.
  void add_epoch(nlohmann::json epoch);
  /// Replaces the file atomically; IoError where that fails.
  void write() const;

 private:
  std::string path_;
  nlohmann::json root_ = {{"epochs", nlohmann::json::array()}};
};

/// A metric that goes into JSON as a number whatever its value: NaN and infinity, which JSON lacks,
/// become null.
nlohmann::json number(double value);

}  // namespace examples
