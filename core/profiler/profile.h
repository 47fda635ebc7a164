// The profiler: what took how long, on the host and on devices, and how much memory, as
// torch.profiler shows it.
//
//   profiler::Profile profile({.memory = true, .shapes = true});  // records from here on
//   for (int i = 0; i < 10; ++i) train_step();
//   profile.stop();
//   fmt::print("{}", profile.table({.sort_by = "self_cpu_time_total", .row_limit = 20}));
//   profile.write_trace("trace.json");  // for ui.perfetto.dev or chrome://tracing
//
// or a few steps out of many:
//
//   profiler::Profile profile({.schedule = {{.wait = 10, .warmup = 2, .active = 5, .repeat = 1}},
//                              .on_trace_ready = profiler::trace_handler("traces")});
//   for (const auto& batch : loader) {
//     train_step(batch);
//     profile.step();
//   }
//
// Recorded are ops, the backward of ops, calls of modules, optimizer steps, data loaders,
// collectives, and profiler::Range of one's own, in all threads. While no profile runs that costs
// a read of a flag each; while one runs, some tens of nanoseconds. docs/profiling.md has more.
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

/// Which steps are recorded (torch.profiler.schedule): after `skip_first` steps, in turn `wait`
/// steps off, `warmup` steps recorded and thrown away, `active` steps recorded; `repeat` times, 0:
/// to the end.
struct Schedule {
  std::int64_t wait = 0, warmup = 0, active = 1, repeat = 0, skip_first = 0;
};

struct ProfileOptions {
  bool cpu = true;       ///< what threads of the host do
  bool cuda = true;      ///< what devices do: CUDA devices, and the virtual ones of the CPU
  bool memory = false;   ///< allocations and frees (torch's profile_memory)
  bool shapes = false;   ///< of the inputs of ops (record_shapes)
  bool modules = false;  ///< calls of modules (with_modules)
  /// Without one everything from start() to stop() is recorded.
  std::optional<Schedule> schedule = {};
  /// Called where a recording is complete: after the last active step of a turn, in step(), or in
  /// stop().
  std::function<void(Profile&)> on_trace_ready = {};
  /// Events that there is room for, some 300 bytes each in the end. What comes after that is
  /// counted as dropped, which tables and traces say.
  std::int64_t max_events = 1'000'000;
  /// Of this process among those that train together; default: the environment's RANK, or 0.
  std::optional<int> rank = {};
  /// Whether the constructor starts it.
  bool start = true;
};

/// One profile runs at a time in a process (ValueError). Its members are for one thread; what is
/// recorded comes from all.
class Profile {
 public:
  explicit Profile(ProfileOptions options = {});
  /// Stops it; what on_trace_ready throws is lost then.
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  /// Begins anew, at the schedule's first step.
  void start();
  /// Ends a recording that is under way, waiting for the devices that had work. Ranges that are
  /// open in other threads are counted as unfinished. Does nothing where it was stopped already.
  void stop();
  /// A step is over, the next begins.
  void step();
  std::int64_t step_number() const { return step_; }
  bool is_recording() const;

  /// Has traces show the modules in `model`, those below it and itself, by the names that they have
  /// in it, "layer1.0"; for the recordings to come.
  template <class Model>
  void name_modules(const Model& model) {
    for (const auto& [path, module] : model.named_modules()) module_names_[module] = path;
  }

  /// The last complete recording; empty before there is one.
  const Recording& recording() const { return recording_; }
  /// Its events by name, averaged, in the order of their first.
  std::vector<Average> key_averages(bool group_by_shape = false) const;
  std::string table(const TableOptions& options = {}) const;
  /// Writes a trace of Chrome's format. Error where that fails.
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

/// For on_trace_ready: writes each recording into `folder`, made where it is missing, as
/// "<worker>.<time>.trace.json"; `worker` is "<host>_<process>" where it is empty.
std::function<void(Profile&)> trace_handler(std::string folder, std::string worker = {});

/// While it lives, every range (ops, backward, modules, Range) is an NVTX range too, which Nsight
/// Systems shows (torch.autograd.profiler.emit_nvtx). Costs a call into the tool each; needs no
/// Profile. Does nothing in a build without CUDA.
class EmitNvtx {
 public:
  EmitNvtx();
  ~EmitNvtx();
  EmitNvtx(const EmitNvtx&) = delete;
  EmitNvtx& operator=(const EmitNvtx&) = delete;
};

}  // namespace ferrite::profiler
