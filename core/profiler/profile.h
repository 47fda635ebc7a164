// The profiler: time spent on the host and on devices, and memory used, as in torch.profiler.
//
//   profiler::Profile profile({.memory = true, .shapes = true});  // records from here on
//   for (int i = 0; i < 10; ++i) train_step();
//   profile.stop();
//   fmt::print("{}", profile.table({.sort_by = "self_cpu_time_total", .row_limit = 20}));
//   profile.write_trace("trace.json");  // for ui.perfetto.dev or chrome://tracing
//
// To record only a few steps of many:
//
//   profiler::Profile profile({.schedule = {{.wait = 10, .warmup = 2, .active = 5, .repeat = 1}},
//                              .on_trace_ready = profiler::trace_handler("traces")});
//   for (const auto& batch : loader) {
//     train_step(batch);
//     profile.step();
//   }
//
// It records ops, their backward, module calls, optimizer steps, data loaders, collectives, and the
// user's own profiler::Range, in all threads. Each costs one read of a flag while no profile runs,
// and some tens of nanoseconds while one does. See docs/profiling.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/core/profiler/range.h"
#include "ferrite/core/profiler/recording.h"
#include "ferrite/core/profiler/table.h"
#include "ferrite/core/profiler/trace.h"

namespace ferrite::profiler {

class Profile;
namespace detail {
struct Session;
}

/// Which steps are recorded (torch.profiler.schedule): after `skip_first` steps, a cycle of `wait`
/// steps off, `warmup` steps recorded and discarded, and `active` steps recorded. The cycle runs
/// `repeat` times; 0 means until the end.
struct Schedule {
  std::int64_t wait = 0;        ///< how many steps are skipped before each warm-up
  std::int64_t warmup = 0;      ///< how many steps are run with the profiler on, without being kept
  std::int64_t active = 1;      ///< how many steps are recorded
  std::int64_t repeat = 0;      ///< how many times wait, warmup and active are run; 0 for no limit
  std::int64_t skip_first = 0;  ///< how many steps are skipped at the start
};

struct ProfileOptions {
  bool cpu = true;       ///< work of host threads
  bool cuda = true;      ///< work of devices: CUDA devices, and the CPU's virtual ones
  bool memory = false;   ///< allocations and frees (torch's profile_memory)
  bool shapes = false;   ///< input shapes of ops (record_shapes)
  bool modules = false;  ///< calls of modules (with_modules)
  /// Without a schedule, everything from start() to stop() is recorded.
  std::optional<Schedule> schedule = {};
  /// Called when a recording is complete: after the last active step of a cycle, in step(), or in
  /// stop().
  std::function<void(Profile&)> on_trace_ready = {};
  /// Maximum number of events, at some 300 bytes each. Events beyond it are counted as dropped,
  /// which tables and traces report.
  std::int64_t max_events = 1'000'000;
  /// Rank of this process in the training job; default: RANK from the environment, or 0.
  std::optional<int> rank = {};
  /// Whether the constructor starts the profile.
  bool start = true;
};

/// Records what operations take, from its construction to stop(), or by a schedule of steps. Only
/// one profile runs at a time in a process (ValueError). Its members are for use by one
/// thread; events are recorded from all threads.
class Profile {
 public:
  explicit Profile(ProfileOptions options = {});
  /// Stops the profile; exceptions of on_trace_ready are discarded.
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  /// Starts again at the schedule's first step.
  void start();
  /// Ends the running recording, waiting for the devices that had work. Ranges still open in other
  /// threads are counted as unfinished. Does nothing if already stopped.
  void stop();
  /// Ends the current step and begins the next.
  void step();
  /// The number of calls of step() so far.
  std::int64_t step_number() const { return step_; }
  /// Whether events are recorded now.
  bool is_recording() const;

  /// Makes traces of later recordings show `model` and the modules in it by their qualified names,
  /// such as "layer1.0".
  template <class Model>
  void name_modules(const Model& model) {
    for (const auto& [path, module] : model.named_modules()) module_names_[module] = path;
  }

  /// The last complete recording; empty before there is one.
  const Recording& recording() const { return recording_; }
  /// Its events averaged by name, in order of first occurrence.
  std::vector<Average> key_averages(bool group_by_shape = false) const;
  /// The table of operations.
  std::string table(const TableOptions& options = {}) const;
  /// Writes a trace in Chrome's format. Error if that fails.
  void write_trace(const std::string& file) const;

 private:
  enum class Action : std::uint8_t { none, warmup, record, record_and_save };

  Action action_at(std::int64_t step) const;
  void enter(Action action);
  void leave();

  ProfileOptions options_;
  bool started_ = false;
  std::int64_t step_ = 0;
  Action action_ = Action::none;
  std::shared_ptr<detail::Session> session_;
  std::vector<StepEvent> steps_;  // in ticks of the clock
  std::map<const void*, std::string> module_names_;
  Recording recording_;
};

/// For on_trace_ready: writes each recording into `folder`, which is created if missing, as
/// "<worker>.<nanoseconds>.trace.json"; an empty `worker` means "<host>_<process>".
std::function<void(Profile&)> trace_handler(std::string folder, std::string worker = {});

/// While it lives, every range (ops, backward, modules, Range) is also an NVTX range, which Nsight
/// Systems shows (torch.autograd.profiler.emit_nvtx). Each range costs a call into the tool; no
/// Profile is needed. Does nothing in a build without CUDA.
class EmitNvtx {
 public:
  EmitNvtx();
  ~EmitNvtx();
  EmitNvtx(const EmitNvtx&) = delete;
  EmitNvtx& operator=(const EmitNvtx&) = delete;
};

}  // namespace ferrite::profiler
