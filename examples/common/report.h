// What a training run leaves behind: figures of every epoch as JSON, as a table, for TensorBoard,
// and drawn as curves; all of them are up to date after each epoch.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "ferrite/examples/common/training_options.h"
#include "ferrite/metrics/logger.h"
#include "ferrite/metrics/tensorboard.h"

namespace examples {

/// Where to; what is empty is not written.
struct ReportFiles {
  std::string report;       ///< JSON, with the configuration
  std::string log;          ///< a row an epoch: CSV, or JSON lines where it ends in .jsonl
  std::string tensorboard;  ///< a folder of event files
  std::string curves;       ///< SVG
  std::string title;        ///< of the curves
};

/// What the options of a run ask for. Curves are drawn beside the report, else in the checkpoint
/// folder, where --curves does not say otherwise. IoError where its folder cannot be made.
ReportFiles report_files(const TrainingOptions& options);

class Report {
 public:
  /// Makes the folders, or throws IoError at once.
  explicit Report(ReportFiles files);
  explicit Report(std::string path) : Report(ReportFiles{.report = std::move(path)}) {}

  void set(const std::string& key, nlohmann::json value) { root_[key] = std::move(value); }
  /// Appends one epoch's figures, an object with a "step", and writes the files.
  void add_epoch(nlohmann::json epoch);
  /// Those of all epochs so far, an array; of a run that is resumed, to be set.
  const nlohmann::json& epochs() const { return root_["epochs"]; }
  void set_epochs(nlohmann::json epochs) { root_["epochs"] = std::move(epochs); }
  /// Replaces the JSON file and the curves atomically; IoError where that fails.
  void write() const;

  const ReportFiles& files() const { return files_; }

 private:
  void open_logs();

  ReportFiles files_;
  nlohmann::json root_ = {{"epochs", nlohmann::json::array()}};
  std::unique_ptr<ferrite::metrics::Logger> log_;
  std::unique_ptr<ferrite::metrics::SummaryWriter> tensorboard_;
};

/// A metric that goes into JSON as a number whatever its value: NaN and infinity, which JSON lacks,
/// become null.
nlohmann::json number(double value);

}  // namespace examples
