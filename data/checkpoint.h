// A folder of checkpoints: written while training goes on, the newest and the best kept, the last
// good one never lost.
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

#include "ferrite/data/file.h"
#include "ferrite/data/training_state.h"

namespace ferrite::data {

enum class MetricMode : std::uint8_t { max, min };

struct CheckpointOptions {
  int keep = 3;                       ///< the newest, 1 or more; 0 keeps all
  int keep_best = 0;                  ///< beyond those, the ones with the best metric
  MetricMode mode = MetricMode::max;  ///< which metric is better
  /// Whether save() returns once the values are copied to host memory and the file is written
  /// behind it: that copy is one state's worth of memory (page-locked for what is on CUDA devices),
  /// held while the file is being written, and cached by the allocator after.
  bool background = true;
  bool checksums = true;
};

/// A checkpoint in the folder.
struct CheckpointInfo {
  std::filesystem::path path;
  std::int64_t step = 0;  ///< by its name
  std::optional<double> metric = {};
  std::string error = {};  ///< what is wrong with its header or length; "" where nothing is
};

/// One job at a time on a thread of its own.
class BackgroundJob {
 public:
  BackgroundJob() = default;
  /// Lets the job end; what it throws goes to stderr, for want of anybody to catch it.
  ~BackgroundJob();
  BackgroundJob(const BackgroundJob&) = delete;
  BackgroundJob& operator=(const BackgroundJob&) = delete;

  /// After wait().
  void start(std::function<void()> job);
  /// Until the job is done; rethrows what it threw, once.
  void wait();

 private:
  std::exception_ptr error_;
  std::jthread thread_;
};

/// Files step_00001234.safetensors in one folder. One process writes: the first save() locks the
/// folder for as long as the manager lives, and removes temporary files that killed processes left.
/// Others may resume from it and look. To be used by one thread.
class CheckpointManager {
 public:
  /// Makes the folder where it is not there. ValueError for negative numbers to keep.
  explicit CheckpointManager(std::filesystem::path folder, const CheckpointOptions& options = {});
  /// Ends the write that is under way. Call wait() before, to learn how it ended.
  ~CheckpointManager() = default;

  /// Saves the state as it is for this thread's current streams: what is queued after changes
  /// nothing, and with `background` CUDA devices are not waited for. At most one file is being
  /// written: a second save() waits for the first, and throws what that threw (IoError, such as a
  /// full disk; the checkpoints before are as they were). Older files are removed once the new one
  /// is on disk. ValueError where there is a later step in the folder, which would remain the
  /// newest: see discard_after(). IoError where another process saves there.
  void save(std::int64_t step, const TrainingState& state, std::optional<double> metric = {});
  /// Until the file is on disk; throws what went wrong.
  void wait();

  /// The checkpoints by step, damaged ones included.
  std::vector<CheckpointInfo> list() const;
  /// The newest; nothing where there is none. IoError where that is damaged.
  std::optional<CheckpointInfo> latest() const;
  /// The one with the best metric; nothing where none has one.
  std::optional<CheckpointInfo> best() const;

  /// Restores the newest checkpoint, or that of options.step, everything or nothing
  /// (TrainingState::restore); nothing where there is none, so that the run begins. IoError where
  /// it is damaged, unless options.fall_back; ValueError where there is no such step.
  std::optional<ResumeReport> resume(TrainingState& state, const ResumeOptions& options = {});

  /// Removes the checkpoints of later steps, for a run that goes on from an older one.
  void discard_after(std::int64_t step);

  std::filesystem::path path_of(std::int64_t step) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void begin_writing();
  void refuse_past(std::int64_t step) const;
  void remove_old(std::int64_t written) const;

  const std::filesystem::path folder_;
  const CheckpointOptions options_;
  std::unique_ptr<FolderLock> lock_;            // from the first save on
  std::vector<std::filesystem::path> damaged_;  // found by resume(), to be put aside
  BackgroundJob job_;                           // last: its end needs the others
};

}  // namespace ferrite::data
