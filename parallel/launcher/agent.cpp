#include "ferrite/parallel/launcher/agent.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/terminal.h"
#include "ferrite/parallel/launcher/host.h"

namespace ferrite::launcher {
namespace {

using namespace std::chrono_literals;

std::chrono::steady_clock::duration duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

/// The parent of a process, 0 if unknown.
pid_t parent_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text, '\0');
  const std::size_t end = text.rfind(')');  // of the name, which may contain anything
  if (end == std::string::npos || end + 4 >= text.size()) return 0;
  pid_t parent = 0;
  std::from_chars(text.data() + end + 4, text.data() + text.size(), parent);
  return parent;
}

std::set<pid_t> children() {
  std::set<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad == std::errc() && end == name.data() + name.size() && parent_of(pid) == getpid())
      found.insert(pid);
  }
  return found;
}

std::string local_time(double seconds_since_1970) {
  const auto whole = static_cast<std::time_t>(std::floor(seconds_since_1970));
  std::tm parts{};
  localtime_r(&whole, &parts);
  const int milliseconds =
      static_cast<int>((seconds_since_1970 - static_cast<double>(whole)) * 1000);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03}", parts, milliseconds);
}

std::string indented(std::string_view text, std::string_view indent) {
  std::string out;
  for (;;) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += fmt::format("\n{}{}", indent, text.substr(0, end));
    if (end == text.size()) return out;
    text.remove_prefix(end + 1);
  }
}

std::string last_line(std::string_view text) {
  const std::size_t end = text.rfind('\n');
  return std::string(end == std::string_view::npos ? text : text.substr(end + 1));
}

/// The first failure with the last lines of its stderr, and the outcome of the other ranks of this
/// node; several lines. `workers` may be null.
std::string failure_text(const RankReport& first, const LocalWorkers* workers, const Round& round) {
  std::string text;
  const std::size_t end = std::min(first.what.find('\n'), first.what.size());
  const std::string what =
      terminal::styled(first.what.substr(0, end), terminal::Style::red, stderr) +
      first.what.substr(end);
  if (first.rank < 0)
    text = fmt::format("node {} ({}): {}", first.node, first.host, what);
  else if (first.pid == 0)  // known only by its heartbeat
    text = fmt::format("rank {} ({}) {}", first.rank, first.host, what);
  else
    text = fmt::format(
        "rank {} (node {}, {}, local rank {}, process {}) {} at {}, {:.1f} s after "
        "its start",
        first.rank, first.node, first.host, first.local_rank, first.pid, what, local_time(first.at),
        first.after);
  std::string tail = first.tail;
  const int local = first.rank - round.first_rank;
  const bool here = workers && local >= 0 && local < workers->size();
  if (first.pid == 0 && here) tail = workers->report(local).tail;
  if (!tail.empty()) text += "\nlast lines of its stderr:" + indented(tail, "  ");
  if (!first.note.empty()) text += "\n" + first.note;
  std::string others;
  for (int i = 0; workers && i < workers->size(); ++i) {
    const RankReport other = workers->report(i);
    if (other.rank == first.rank && first.pid != 0) continue;
    others += fmt::format("\n  rank {} {}", other.rank, other.what);
    if (other.code != 0 && other.code < 128 && !other.tail.empty())
      others += fmt::format(": {}", last_line(other.tail));
  }
  if (!others.empty())
    text += fmt::format("\nafter it{}:", round.nnodes > 1 ? ", on this node" : "") + others;
  return text;
}

/// torchrun's --tee without --log-dir, which writes to a temporary folder.
void choose_log_dir(Options& options) {
  if (!options.log_dir.empty()) {
    if (!options.tee.any() && !options.redirects.any())
      options.tee = StreamChoice::all(Streams::both);
    return;
  }
  if (!options.tee.any() && !options.redirects.any()) return;
  const char* folder = std::getenv("TMPDIR");
  std::string name = fmt::format("{}/ferrite_run_XXXXXX", folder ? folder : "/tmp");
  FERRITE_CHECK(mkdtemp(name.data()) != nullptr, IoError, "ferrite-run", "cannot make {}", name);
  options.log_dir = name;
}

}  // namespace

Agent::Agent(Options options) : options_(std::move(options)) {
  inherited_ = children();
  inherited_.insert(guard_.pid());
  // Orphaned descendants of workers become children of this process.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int Agent::run() {
  file_ = find_program(options_.command.front());
  choose_log_dir(options_);
  if (!options_.log_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options_.log_dir, error);
    FERRITE_CHECK(!error, IoError, "ferrite-run", "cannot make the folder {}: {}", options_.log_dir,
                  error.message());
    say(fmt::format("output of the ranks is kept in {}", options_.log_dir));
  }
  nodes_ = make_nodes(options_);
  int code = 0;
  for (int next = 0;;) {
    std::optional<Round> round;
    try {
      round = wait_for_round(next);
    } catch (...) {
      drain_consoles();
      throw;
    }
    if (!round && interrupted_) {
      code = 128 + interrupted_;
      break;
    }
    const Verdict verdict = round ? run_workers(*round) : ended_elsewhere();
    code = verdict.code;
    if (verdict.kind != Verdict::Kind::restart) {
      wait_for_nodes_to_leave();
      break;
    }
    next = round->number + 1;
    say(fmt::format("restart {} of {} in {:.1f} s", verdict.restarts_used, options_.max_restarts,
                    verdict.wait));
    const auto until = Clock::now() + duration(verdict.wait);
    while (!interrupted_ && Clock::now() < until) pump(until, /*nodes=*/false);
    if (interrupted_) {
      code = 128 + interrupted_;
      break;
    }
  }
  drain_consoles();
  return code;
}

std::optional<Round> Agent::wait_for_round(int number) {
  nodes_->ready(number);
  for (;;) {
    if (auto round = nodes_->round()) return round;
    if (interrupted_ || nodes_->verdict()) return std::nullopt;
    pump(Clock::now() + 1s);
  }
}

/// The verdict of a round that this node did not take part in.
Verdict Agent::ended_elsewhere() {
  const Verdict verdict = *nodes_->verdict();
  say(verdict.first
          ? fmt::format("the job has ended: {}", failure_text(*verdict.first, nullptr, Round{}))
          : "the job has ended well before this agent came back");
  return verdict;
}

/// Waits until the other nodes know how the job has ended. A signal ends the wait.
void Agent::wait_for_nodes_to_leave() {
  bool asked = interrupted_ != 0, told = false;
  const auto began = Clock::now();
  while (!nodes_->left() && !kill_ && asked == (interrupted_ != 0)) {
    pump(Clock::now() + 50ms);
    if (told || Clock::now() - began < 10s) continue;
    told = true;
    say(
        fmt::format("the workers have ended; waiting until all nodes know of it, up to "
                    "--rdzv-timeout={:g} s; a signal ends the wait",
                    options_.rdzv_timeout));
  }
}

Verdict Agent::run_workers(const Round& round) {
  bool told = false;
  try {
    workers_ = std::make_unique<LocalWorkers>(options_, round, file_, guard_, out_, err_);
  } catch (const Error& error) {
    const auto* const no_program = dynamic_cast<const CannotStart*>(&error);
    nodes_->failed({{.node = round.node,
                     .host = host_name(),
                     .code = no_program ? no_program->code : 1,
                     .what = error.what(),
                     .final = true}});
    told = true;
  }
  std::optional<Verdict> verdict;
  while (!(verdict = nodes_->verdict())) {
    if (workers_ && !told && workers_->failed()) settle();
    if (workers_) tell_nodes(told, round);
    // After a failure, workers can be stopped before all nodes know of it.
    if (workers_ && workers_->failed()) stop_workers();
    if ((verdict = nodes_->verdict())) break;
    pump(Clock::now() + 1s);
    if (interrupted_ && workers_) stop_workers();
  }
  if (workers_) stop_workers();
  if (verdict->first) say(failure_text(*verdict->first, workers_.get(), round));
  workers_.reset();
  return *verdict;
}

/// A rank that ends makes others fail, which may be reaped before it.
void Agent::settle() {
  const auto began = Clock::now();
  for (auto until = began + 300ms; !workers_->ended();) {
    pump(until, /*nodes=*/false);
    if (Clock::now() < until) continue;
    if (until >= began + 2s || nodes_->verdict() || !nodes_->lack_cause(workers_->failures()))
      break;
    until += 50ms;
  }
}

void Agent::tell_nodes(bool& told, const Round& round) {
  if (interrupted_ && round.nnodes > 1 && workers_->succeeded()) {
    // The others must end too, even if they know that this node is done.
    nodes_->failed({{.node = round.node,
                     .host = host_name(),
                     .code = 0,
                     .what = fmt::format("was interrupted by {}", signal_name(interrupted_)),
                     .final = true}});
    told = true;
  } else if (told) {
    return;
  } else if (workers_->failed()) {
    auto failures = workers_->failures();
    for (RankReport& failure : failures) failure.final = interrupted_ != 0;
    nodes_->failed(failures);
    told = true;
  } else if (workers_->succeeded()) {
    nodes_->succeeded();
    told = true;
  }
}

/// Ends all workers and their descendants, without exception. If a signal was forwarded they get
/// time to react to it, otherwise SIGTERM first.
void Agent::stop_workers() {
  if (!interrupted_) {
    workers_->expect_endings();
    workers_->send(SIGTERM);
  }
  const auto grace = Clock::now() + duration(options_.grace_period);
  const auto hopeless = grace + 10s;
  bool killing = false;
  std::set<pid_t> told;
  for (;;) {
    const std::set<pid_t> rest = workers_->ended() ? orphans() : std::set<pid_t>();
    const bool gone = workers_->gone();
    if (gone && rest.empty()) break;
    if (Clock::now() > hopeless) {
      say("some processes cannot be killed, and are left behind");
      break;
    }
    if (!killing && (kill_ || Clock::now() >= grace)) {
      killing = true;
      workers_->expect_endings();
      if (!workers_->ended()) say("workers that are still there are killed");
    }
    if (killing) workers_->send(SIGKILL);
    for (const pid_t pid : rest)
      if (killing || told.insert(pid).second) kill(pid, killing ? SIGKILL : SIGTERM);
    pump(std::min(Clock::now() + 10ms, std::max(grace, Clock::now() + 1ms)), /*nodes=*/false);
  }
  workers_->finish_output();
}

/// Processes that workers started in sessions of their own, and left behind.
std::set<pid_t> Agent::orphans() const {
  std::set<pid_t> found = children();
  std::erase_if(found, [&](pid_t pid) { return inherited_.contains(pid); });
  return found;
}

void Agent::pump(Clock::time_point deadline, bool nodes) {
  std::vector<pollfd> fds = {{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
  if (nodes && nodes_ && nodes_->fd() >= 0) fds.push_back({.fd = nodes_->fd(), .events = POLLIN});
  for (const Console* console : {&out_, &err_})
    if (console->pending()) fds.push_back({.fd = console->fd(), .events = POLLOUT});
  if (workers_) workers_->add_to(fds);
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  poll(fds.data(), fds.size(), static_cast<int>(std::clamp<std::int64_t>(wait.count(), 0, 60'000)));
  take_signals();
  if (workers_) workers_->read_output();
  out_.flush();
  err_.flush();
}

void Agent::take_signals() {
  for (const int signal : signals_.take()) {
    if (signal == SIGCHLD) continue;
    if (asks_for_end(signal)) {
      // A single request may reach a process and its group, as two signals.
      if (interrupted_ && Clock::now() - interrupted_at_ > 500ms) kill_ = true;
      if (!interrupted_) interrupted_at_ = Clock::now();
      if (!interrupted_)
        say(fmt::format("{}: {}", signal_name(signal),
                        workers_ ? "passed on to the workers; once more kills them" : "ending"));
      interrupted_ = signal;
    }
    if (workers_) workers_->send(signal);
  }
  reap();
}

void Agent::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
    if (workers_) workers_->reaped(pid, status);
}

void Agent::say(std::string_view text) {
  for (;;) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    err_.write(fmt::format("[ferrite-run] {}\n", text.substr(0, end)));
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  err_.flush();
}

/// Waits until all output is written; if the reader has stalled, signals end the wait.
void Agent::drain_consoles() {
  const auto drain = [&] {
    while ((out_.pending() || err_.pending()) && !kill_) pump(Clock::now() + 1s, /*nodes=*/false);
  };
  drain();
  if (out_.lost().empty()) return;
  say(fmt::format("the end of the standard output was lost: {}", out_.lost()));
  drain();
}

}  // namespace ferrite::launcher
