#include "ferrite/parallel/launcher/local_workers.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "ferrite/core/error.h"
#include "ferrite/parallel/launcher/host.h"

namespace ferrite::launcher {
namespace {

constexpr int kTailLines = 20;

double seconds_since_1970(std::chrono::system_clock::time_point at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

/// The environment of this process plus the variables of torchrun and Ferrite, as "NAME=value".
std::vector<std::string> worker_environment(const Options& options, const Round& round,
                                            int local_rank) {
  std::map<std::string, std::string> set;
  const auto put = [&](const char* name, const auto& value) {
    set[name] = fmt::format("{}", value);
  };
  const int rank = round.first_rank + local_rank;
  put("RANK", rank);
  put("LOCAL_RANK", local_rank);
  put("WORLD_SIZE", round.world_size);
  put("LOCAL_WORLD_SIZE", options.nproc_per_node);
  put("GROUP_RANK", round.node);
  put("NODE_RANK", round.node);
  put("GROUP_WORLD_SIZE", round.nnodes);
  put("ROLE_RANK", rank);
  put("ROLE_WORLD_SIZE", round.world_size);
  put("ROLE_NAME", "default");
  put("MASTER_ADDR", round.master_addr);
  put("MASTER_PORT", round.master_port);
  put("TORCHELASTIC_RESTART_COUNT", round.number);
  put("TORCHELASTIC_MAX_RESTARTS", options.max_restarts);
  put("TORCHELASTIC_RUN_ID", options.run_id);
  // Nothing listens on MASTER_PORT: a torch program serves its store there itself.
  put("TORCHELASTIC_USE_AGENT_STORE", "False");
  put("FERRITE_RESTART_COUNT", round.number);
  put("FERRITE_MAX_RESTARTS", options.max_restarts);
  put("FERRITE_RUN_ID", options.run_id);
  put("FERRITE_TOKEN", round.token);
  if (!round.store.empty()) put("FERRITE_STORE", round.store);
  if (options.nproc_per_node > 1 && !std::getenv("OMP_NUM_THREADS")) {
    put("OMP_NUM_THREADS", 1);
    if (!std::getenv("FERRITE_NUM_THREADS")) put("FERRITE_NUM_THREADS", 1);
  }

  std::vector<std::string> out;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    // PET_...: options of this launcher, which a nested launcher must not use.
    if (!set.contains(std::string(text.substr(0, text.find('=')))) && !text.starts_with("PET_"))
      out.emplace_back(text);
  }
  for (const auto& [name, value] : set) out.push_back(name + "=" + value);
  return out;
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
      wait_for_end(worker->process.pid());
      guard_.forget(worker->process.pid());
    }
    throw;
  }
}

LocalWorkers::~LocalWorkers() {
  for (const auto& worker : workers_) {
    if (!left(*worker)) worker->process.send(SIGKILL);
    if (!worker->process.ending) wait_for_end(worker->process.pid());
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
    wait_for_end(pid);
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
    if (status != 0 && (!expected_ || failed_.empty())) failed_.push_back(static_cast<int>(i));
    return true;
  }
  return false;
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

std::vector<RankReport> LocalWorkers::failures() const {
  std::vector<RankReport> reports;
  for (const int local_rank : failed_) reports.push_back(report(local_rank));
  // Ranks that wait for a dead rank fail with an exception.
  std::ranges::stable_partition(reports, by_signal);
  return reports;
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
