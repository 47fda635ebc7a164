// The report of a training run: the metrics of every epoch as JSON, as a table, for TensorBoard and
// as curves. All files are updated after each epoch.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "ferrite/examples/common/training_options.h"
#include "ferrite/metrics/logger.h"
#include "ferrite/metrics/tensorboard.h"

namespace examples {

/// The output files; an empty name means no file.
struct ReportFiles {
  std::string report;       ///< JSON, with the configuration
  std::string log;          ///< one row per epoch: CSV, or JSON lines if the name ends in .jsonl
  std::string tensorboard;  ///< a folder of event files
  std::string curves;       ///< SVG
  std::string title;        ///< of the curves
};

/// The files that the options of a run ask for. Without --curves, the curves are written to the
/// folder of the report, else to the checkpoint folder. IoError if that folder cannot be created.
ReportFiles report_files(const TrainingOptions& options);

class Report {
 public:
  /// Creates the folders; throws IoError if that fails.
  explicit Report(ReportFiles files);
  explicit Report(std::string path) : Report(ReportFiles{.report = std::move(path)}) {}

  void set(const std::string& key, nlohmann::json value) { root_[key] = std::move(value); }
  /// Appends the metrics of one epoch, an object with a "step", and writes the files.
  void add_epoch(nlohmann::json epoch);
  /// The metrics of all epochs so far, an array. A resumed run must set it.
  const nlohmann::json& epochs() const { return root_["epochs"]; }
  void set_epochs(nlohmann::json epochs) { root_["epochs"] = std::move(epochs); }
  /// Replaces the JSON file and the curves atomically; IoError if that fails.
  void write() const;

  const ReportFiles& files() const { return files_; }

 private:
  void open_logs();

  ReportFiles files_;
  nlohmann::json root_ = {{"epochs", nlohmann::json::array()}};
  std::unique_ptr<ferrite::metrics::Logger> log_;
  std::unique_ptr<ferrite::metrics::SummaryWriter> tensorboard_;
};

/// A metric as a JSON number. NaN and infinity, which JSON cannot represent, become null.
nlohmann::json number(double value);

}  // namespace examples
