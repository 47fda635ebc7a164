#include "ferrite/core/profiler/profile.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/core/profiler/collect.h"
#include "ferrite/core/profiler/records.h"

namespace ferrite::profiler {

namespace {

std::uint32_t hooks_for(const ProfileOptions& options) {
  // Ranges are always needed: device work and memory are attributed to them.
  return detail::kRanges | (options.cuda ? detail::kDevices : 0u) |
         (options.memory ? detail::kMemory : 0u) | (options.shapes ? detail::kShapes : 0u) |
         (options.modules ? detail::kModules : 0u);
}

int rank_of_environment() {
  const char* text = std::getenv("RANK");
  if (!text) return 0;
  int rank = 0;
  const std::string_view value = text;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), rank);
  return error == std::errc() && end == value.data() + value.size() && rank >= 0 ? rank : 0;
}

void check(const ProfileOptions& options) {
  FERRITE_CHECK(options.cpu || options.cuda, ValueError, "profiler",
                "neither cpu nor cuda is to be profiled");
  FERRITE_CHECK(options.max_events > 0, ValueError, "profiler",
                "expected max_events above 0, got {}", options.max_events);
  if (!options.schedule) return;
  const Schedule& s = *options.schedule;
  FERRITE_CHECK(s.active > 0 && s.wait >= 0 && s.warmup >= 0 && s.repeat >= 0 && s.skip_first >= 0,
                ValueError, "profiler",
                "expected a schedule with active above 0 and the others not below it, got wait {}, "
                "warmup {}, active {}, repeat {}, skip_first {}",
                s.wait, s.warmup, s.active, s.repeat, s.skip_first);
}

}  // namespace

Profile::Profile(ProfileOptions options) : options_(std::move(options)) {
  check(options_);
  if (options_.start) start();
}

Profile::~Profile() {
  try {
    stop();
  } catch (const std::exception& error) {
    fmt::print(stderr, "[profiler] {}\n", error.what());
  }
}

// ---- The schedule

Profile::Action Profile::action_at(std::int64_t step) const {
  if (!options_.schedule) return Action::record;
  const Schedule& s = *options_.schedule;
  step -= s.skip_first;
  if (step < 0) return Action::none;
  const std::int64_t turn = s.wait + s.warmup + s.active;
  if (s.repeat > 0 && step / turn >= s.repeat) return Action::none;
  const std::int64_t at = step % turn;
  if (at < s.wait) return Action::none;
  if (at < s.wait + s.warmup) return Action::warmup;
  return at + 1 < turn ? Action::record : Action::record_and_save;
}

void Profile::enter(Action action) {
  action_ = action;
  if (action == Action::none) return;
  session_ = detail::start_session(hooks_for(options_), options_.max_events);
  steps_ = {{.number = step_, .begin = static_cast<std::int64_t>(session_->begin.ticks)}};
}

/// Ends the running recording, and keeps it unless it was a warm-up.
void Profile::leave() {
  if (!session_) return;
  const std::shared_ptr<detail::Session> session = std::exchange(session_, nullptr);
  const bool keep = action_ != Action::warmup;
  action_ = Action::none;
  detail::stop_session(*session);
  if (!keep) return;
  recording_ = detail::collect(*session, options_.cpu);
  recording_.rank = options_.rank.value_or(rank_of_environment());
  recording_.modules = module_names_;
  const detail::Calibration clock(session->begin, session->end);
  for (StepEvent& step : steps_) {
    step.begin = clock.nanoseconds(static_cast<std::uint64_t>(step.begin));
    step.time = clock.nanoseconds(static_cast<std::uint64_t>(step.time)) - step.begin;
  }
  recording_.steps = std::exchange(steps_, {});
  if (options_.on_trace_ready) options_.on_trace_ready(*this);
}

void Profile::start() {
  FERRITE_CHECK(!started_, ValueError, "profiler", "the profile runs already; stop() it first");
  step_ = 0;
  enter(action_at(0));
  started_ = true;
}

void Profile::stop() {
  if (!std::exchange(started_, false)) return;
  if (!steps_.empty()) steps_.pop_back();  // the step did not end
  leave();
}

void Profile::step() {
  FERRITE_CHECK(started_, ValueError, "profiler", "step() of a profile that does not run");
  const auto now = static_cast<std::int64_t>(detail::ticks());
  if (!steps_.empty()) steps_.back().time = now;
  const Action next = action_at(step_ + 1);
  const bool goes_on = session_ && (action_ == Action::warmup) == (next == Action::warmup) &&
                       action_ != Action::record_and_save && next != Action::none;
  if (goes_on) {
    ++step_;
    steps_.push_back({.number = step_, .begin = now});
    action_ = next;
    return;
  }
  ++step_;
  leave();
  enter(next);
}

bool Profile::is_recording() const { return session_ && action_ != Action::warmup; }

// ---- Results

std::vector<Average> Profile::key_averages(bool group_by_shape) const {
  return profiler::key_averages(recording_, group_by_shape);
}

std::string Profile::table(const TableOptions& options) const {
  return profiler::table(recording_, options);
}

void Profile::write_trace(const std::string& file) const {
  profiler::write_trace(recording_, file);
}

std::function<void(Profile&)> trace_handler(std::string folder, std::string worker) {
  if (worker.empty()) {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    worker = fmt::format("{}_{}", host.data(), getpid());
  }
  return [folder = std::move(folder), worker = std::move(worker)](Profile& profile) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    FERRITE_CHECK(!error, Error, "trace_handler", "cannot make the folder {}: {}", folder,
                  error.message());
    // In nanoseconds: two cycles of short steps may begin within one millisecond.
    profile.write_trace(
        fmt::format("{}/{}.{}.trace.json", folder, worker, profile.recording().wall_clock));
  };
}

EmitNvtx::EmitNvtx() { detail::set_nvtx(true); }
EmitNvtx::~EmitNvtx() { detail::set_nvtx(false); }

}  // namespace ferrite::profiler
