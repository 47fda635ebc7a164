#include "ferrite/parallel/launcher/local_workers.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

#include "ferrite/core/error.h"
#include "ferrite/parallel/launcher/environment.h"
#include "ferrite/parallel/launcher/host.h"

namespace ferrite::launcher {
namespace {

constexpr int kTailLines = 20;

double seconds_since_1970(std::chrono::system_clock::time_point at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

}  // namespace

LocalWorkers::LocalWorkers(const Options& options, const Round& round, const std::string& file,
                           Guard& guard, Console& out, Console& err)
    : options_(options), round_(round), guard_(guard) {
  try {
    for (int i = 0; i < options.nproc_per_node; ++i) start(file, i, out, err);
  } catch (...) {
    for (const auto& worker : workers_) {
      worker->process.send(SIGKILL);
      while (waitpid(worker->process.pid(), nullptr, 0) < 0 && errno == EINTR) {
      }
      guard_.forget(worker->process.pid());
    }
    throw;
  }
}

LocalWorkers::~LocalWorkers() {
  for (const auto& worker : workers_) {
    if (!left(*worker)) worker->process.send(SIGKILL);
    if (!worker->process.ending)
      while (waitpid(worker->process.pid(), nullptr, 0) < 0 && errno == EINTR) {
      }
    if (!worker->gone) guard_.forget(worker->process.pid());
  }
}

/// Whether no process of it is left.
bool LocalWorkers::left(const Worker& worker) const {
  if (!worker.gone && worker.process.ending && !worker.process.group_exists()) {
    worker.gone = true;
    guard_.forget(worker.process.pid());
  }
  return worker.gone;
}

void LocalWorkers::start(const std::string& file, int local_rank, Console& out, Console& err) {
  const int rank = round_.first_rank + local_rank;
  const Streams tee = options_.tee.of(local_rank), to_file = options_.redirects.of(local_rank);
  const bool shown = !options_.local_ranks_filter ||
                     std::ranges::count(*options_.local_ranks_filter, local_rank) > 0;
  const auto sinks = [&](Streams stream, Console& console, const char* extension) {
    WorkerOutput::Sinks s{.errors = &err};
    if (shown && !has(to_file, stream)) s.console = &console;
    if (options_.prefix) s.prefix = fmt::format("[rank {}] ", rank);
    if (has(tee, stream) || has(to_file, stream))
      s.file =
          fmt::format("{}/restart_{}/rank_{}{}", options_.log_dir, round_.number, rank, extension);
    return s;
  };
  WorkerProcess process(file, options_.command, worker_environment(options_, round_, local_rank));
  guard_.watch(process.pid());
  const int out_fd = process.out(), err_fd = process.err();
  const pid_t pid = process.pid();
  try {
    WorkerOutput to_out(out_fd, sinks(Streams::out, out, ".out"));
    WorkerOutput to_err(err_fd, sinks(Streams::err, err, ".err"));
    workers_.push_back(
        std::make_unique<Worker>(Worker{std::move(process), std::move(to_out), std::move(to_err)}));
  } catch (...) {
    kill(-pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    guard_.forget(pid);
    throw;
  }
}

void LocalWorkers::add_to(std::vector<pollfd>& fds) const {
  for (const auto& worker : workers_)
    for (const WorkerOutput* output : {&worker->out, &worker->err})
      if (output->open() && !output->blocked())
        fds.push_back({.fd = output->fd(), .events = POLLIN, .revents = 0});
}

void LocalWorkers::read_output() {
  for (const auto& worker : workers_) {
    worker->out.read();
    worker->err.read();
  }
}

bool LocalWorkers::reaped(pid_t pid, int status) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = *workers_[i];
    if (worker.process.pid() != pid || worker.process.ending) continue;
    worker.process.ending = Ending{status, std::chrono::system_clock::now()};
    worker.told = expected_;
    if (status != 0) batch_.push_back(static_cast<int>(i));
    return true;
  }
  return false;
}

void LocalWorkers::end_batch() {
  const auto by_signal = [&](int local_rank) {
    return workers_[static_cast<std::size_t>(local_rank)]->process.ending->by_signal();
  };
  if (!batch_.empty() && (!first_ || (!expected_ && !by_signal(*first_)))) {
    // Ranks that wait for a dead rank fail with an exception.
    const auto killed = std::ranges::find_if(batch_, by_signal);
    if (!first_ || killed != batch_.end())
      first_ = killed == batch_.end() ? batch_.front() : *killed;
  }
  batch_.clear();
}

void LocalWorkers::send(int signal) const {
  for (const auto& worker : workers_)
    if (!left(*worker)) worker->process.send(signal);
}

bool LocalWorkers::ended() const {
  return std::ranges::all_of(workers_, [](const auto& w) { return w->process.ending.has_value(); });
}

bool LocalWorkers::succeeded() const {
  return ended() &&
         std::ranges::all_of(workers_, [](const auto& w) { return w->process.ending->good(); });
}

bool LocalWorkers::gone() const {
  return std::ranges::all_of(workers_, [&](const auto& w) { return left(*w); });
}

void LocalWorkers::finish_output() {
  for (const auto& worker : workers_) {
    worker->out.finish();
    worker->err.finish();
  }
}

std::optional<RankReport> LocalWorkers::first_failure() const {
  if (!first_) return std::nullopt;
  return report(*first_);
}

RankReport LocalWorkers::report(int local_rank) const {
  const Worker& worker = *workers_[static_cast<std::size_t>(local_rank)];
  const auto& ending = worker.process.ending;
  const auto at = ending ? ending->at : std::chrono::system_clock::now();
  std::string what = ending ? ending->str() : "is still there";
  if (ending && worker.told && ending->by_signal()) what += ", at the agent's request";
  return {.rank = round_.first_rank + local_rank,
          .local_rank = local_rank,
          .node = round_.node,
          .host = host_name(),
          .pid = worker.process.pid(),
          .code = ending ? ending->code() : 1,
          .what = what,
          .at = seconds_since_1970(at),
          .after = std::chrono::duration<double>(at - worker.process.started()).count(),
          .tail = worker.err.last_lines(kTailLines)};
}

}  // namespace ferrite::launcher
