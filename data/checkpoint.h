// A folder of checkpoints: written in the background, keeping the newest and the best; the last
// good one is never lost.
//
//   data::CheckpointManager checkpoints(dir, {.keep = 3, .keep_best = 1});
//   if (auto report = checkpoints.resume(state)) fmt::print("{}\n", report->str());
//   for (...) {
//     ...
//     if (step % 1000 == 0) checkpoints.save(step, state);
//   }
//   checkpoints.wait();
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/metric_goal.h"
#include "ferrite/data/file.h"
#include "ferrite/data/training_state.h"

namespace ferrite::data {

/// The options of CheckpointManager.
struct CheckpointOptions {
  int keep = 3;                       ///< number of newest to keep, 1 or more; 0 keeps all
  int keep_best = 0;                  ///< number of best by metric to keep besides those
  MetricGoal mode = MetricGoal::max;  ///< whether a higher or a lower metric is better
  /// Whether save() returns once the values are copied to host memory, and the file is written in
  /// the background. The copy takes one state's worth of memory (page-locked for tensors on CUDA
  /// devices), held while the file is being written and cached by the allocator afterwards.
  bool background = true;
  bool checksums = true;  ///< whether files get checksums, which loading compares
};

/// A checkpoint in the folder.
struct CheckpointInfo {
  std::filesystem::path path;
  std::int64_t step = 0;              ///< by its name
  std::optional<double> metric = {};  ///< the value that save() was given
  std::string error = {};             ///< why its header or length is invalid; "" if valid
};

/// Runs one job at a time on a separate thread.
class BackgroundJob {
 public:
  BackgroundJob() = default;
  /// Waits for the job; its exception goes to stderr, because it cannot be thrown here.
  ~BackgroundJob();
  BackgroundJob(const BackgroundJob&) = delete;
  BackgroundJob& operator=(const BackgroundJob&) = delete;

  /// Call it only after wait().
  void start(std::function<void()> job);
  /// Waits until the job is done; rethrows its exception once.
  void wait();

 private:
  std::exception_ptr error_;
  std::jthread thread_;
};

/// Files step_00001234.safetensors in one folder. Only one process writes: the first save() locks
/// the folder for the lifetime of the manager, and removes temporary files left by killed
/// processes. Other processes may read and resume. Not thread-safe.
class CheckpointManager {
 public:
  /// Creates the folder if it does not exist. ValueError for negative numbers to keep.
  explicit CheckpointManager(std::filesystem::path folder, const CheckpointOptions& options = {});
  /// Finishes the running write. Call wait() first to learn its result.
  ~CheckpointManager() = default;

  /// Saves the state as this thread's current streams see it: work queued later does not affect it,
  /// and with `background` CUDA devices are not waited for. At most one file is written at a time:
  /// a second save() waits for the first, and throws its error (IoError, for example on a full
  /// disk; earlier checkpoints are unchanged). Older files are removed once the new one is on disk.
  /// ValueError if the folder has a later step, which would remain the newest: see discard_after().
  /// IoError if another process saves there.
  void save(std::int64_t step, const TrainingState& state, std::optional<double> metric = {});
  /// Waits until the file is on disk; throws the error of the write.
  void wait();

  /// The checkpoints by step, including damaged ones.
  std::vector<CheckpointInfo> list() const;
  /// The newest; nothing if there is none. IoError if it is damaged.
  std::optional<CheckpointInfo> latest() const;
  /// The one with the best metric; nothing if none has a metric.
  std::optional<CheckpointInfo> best() const;

  /// Restores the newest checkpoint, or that of options.step, completely or not at all
  /// (TrainingState::restore). Returns nothing if there is none, so that the run starts from the
  /// beginning. IoError if it is damaged, unless options.fall_back; ValueError if the step does not
  /// exist.
  std::optional<ResumeReport> resume(TrainingState& state, const ResumeOptions& options = {});

  /// Removes the checkpoints of later steps, for a run that continues from an older one.
  void discard_after(std::int64_t step);

  /// The file of the checkpoint of this step, whether it exists or not.
  std::filesystem::path path_of(std::int64_t step) const;
  /// Where the checkpoints are.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void begin_writing();
  void refuse_past(std::int64_t step) const;
  void remove_old(std::int64_t written) const;

  const std::filesystem::path folder_;
  const CheckpointOptions options_;
  std::unique_ptr<FolderLock> lock_;            // held from the first save on
  std::vector<std::filesystem::path> damaged_;  // found by resume(), to be moved aside
  BackgroundJob job_;                           // last member: it uses the others until it ends
};

}  // namespace ferrite::data
