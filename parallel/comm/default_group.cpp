// The process's default group: its creation at a rendezvous, its release, and blocking operations
// on it.

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

#include "ferrite/core/cuda.h"
#include "ferrite/core/error.h"
#include "ferrite/core/job_rank.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/bootstrap/job_environment.h"
#include "ferrite/parallel/comm/bootstrap/rendezvous.h"
#include "ferrite/parallel/comm/host_worker.h"
#include "ferrite/parallel/comm/links/socket.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

namespace {

/// Never destroyed: a process that ends does not wait for pending operations of its group.
struct Process {
  std::mutex mutex;
  std::shared_ptr<ProcessGroup> group;
};
Process& process() {
  static Process& instance = *new Process;
  return instance;
}

thread_local std::shared_ptr<ProcessGroup> of_thread;

JobRank rank_in_group();

const std::shared_ptr<ProcessGroup>& find_group() {
  if (of_thread) return of_thread;
  Process& p = process();
  std::lock_guard lock(p.mutex);
  return p.group;
}

JobRank rank_in_group() {
  const std::shared_ptr<ProcessGroup> group = find_group();
  return group ? JobRank{group->rank(), group->size()} : JobRank{0, 0};
}

/// Runs an operation on the default group and waits for it.
template <class F>
void blocking(F&& f) {
  const std::shared_ptr<ProcessGroup> group = default_group();
  const comm::AboutToWait scope;
  f(*group).wait();
}

/// Sets the process's default group to `group`, which may be null, and returns the previous one.
std::shared_ptr<ProcessGroup> exchange_process_group(std::shared_ptr<ProcessGroup> group) {
  find_job_rank = rank_in_group;
  Process& p = process();
  std::lock_guard lock(p.mutex);
  return std::exchange(p.group, std::move(group));
}

constexpr const char* kName = "default";

/// Only one thread at a time creates or releases the group. Never destroyed: a process that ends
/// without a goodbye must count as lost.
struct Membership {
  std::mutex mutex;
  std::unique_ptr<Rendezvous> rendezvous;
};
Membership& membership() {
  static Membership& instance = *new Membership;
  return instance;
}

std::string choose_backend(std::string_view asked) {
  if (asked.empty()) return cuda::is_available() && has_nccl() ? "nccl" : "gloo";
  FERRITE_CHECK(asked != "local", ValueError, "init_process_group",
                "the ranks of a local group are threads: use run_ranks() or make_local_groups() "
                "(parallel/comm/local/local_group.h)");
  FERRITE_CHECK(asked == "nccl" || asked == "gloo", ValueError, "init_process_group",
                "expected backend \"nccl\" or \"gloo\", got \"{}\"", asked);
  return std::string(asked);
}

/// Reports an error instead of letting ranks wait for each other in different backends. Rank 0
/// compares, so that a large job makes few requests to the store.
void check_same_backend(Store& store, const bootstrap::Place& place, const std::string& backend,
                        Milliseconds timeout) {
  const auto key = [](int rank) { return fmt::format("backend/{}", rank); };
  store.set(key(place.rank), backend);
  if (place.rank == 0) {
    std::string verdict;
    for (int r = 1; r < place.world_size && verdict.empty(); ++r) {
      const std::string theirs = store.get(key(r), timeout);
      if (theirs != backend)
        verdict = fmt::format("the ranks disagree: rank 0 asks for {}, and rank {} for {}", backend,
                              r, theirs);
    }
    store.set("backends", verdict);
  }
  const std::string verdict = store.get("backends", timeout);
  FERRITE_CHECK(verdict.empty(), DistributedError, "init_process_group", "{}", verdict);
}

}  // namespace

std::shared_ptr<ProcessGroup> init_process_group(std::string_view backend,
                                                 const InitOptions& options) {
  Membership& mine = membership();
  std::lock_guard lock(mine.mutex);
  FERRITE_CHECK(!mine.rendezvous, ValueError, "init_process_group",
                "this process has a default group already; destroy_process_group() first");
  FERRITE_CHECK(options.timeout > Milliseconds(0), ValueError, "init_process_group",
                "the timeout must be positive, got {} ms", options.timeout.count());
  const std::string chosen = choose_backend(backend);

  std::unique_ptr<Rendezvous> rendezvous = parallel::rendezvous(options);
  const bootstrap::Place& place = rendezvous->place();
  const Milliseconds timeout = links::limited(options.timeout);
  check_same_backend(*rendezvous->store(), place, chosen, timeout);
  GroupContext context;
  context.name = kName;
  context.rank = place.rank;
  context.size = place.world_size;
  context.job_ranks.resize(static_cast<std::size_t>(place.world_size));
  std::iota(context.job_ranks.begin(), context.job_ranks.end(), 0);
  context.timeout = timeout;
  context.store =
      std::make_shared<PrefixStore>(fmt::format("group/{}/", kName), rendezvous->store());
  context.monitor = rendezvous->monitor();
  context.device = options.device;
  std::shared_ptr<ProcessGroup> group =
      chosen == "nccl" ? make_nccl_group(context) : make_gloo_group(context);
  mine.rendezvous = std::move(rendezvous);
  exchange_process_group(group);
  return group;
}

void destroy_process_group() {
  Membership& mine = membership();
  std::lock_guard lock(mine.mutex);
  std::shared_ptr<ProcessGroup> group = exchange_process_group(nullptr);
  const std::weak_ptr<ProcessGroup> kept = group;
  group = nullptr;  // pending operations end
  if (const std::shared_ptr<ProcessGroup> left = kept.lock())
    left->leave("destroy_process_group() was called");
  if (const std::unique_ptr<Rendezvous> rendezvous = std::exchange(mine.rendezvous, nullptr))
    rendezvous->leave();
}

int get_local_rank() { return bootstrap::local_rank(); }

bool is_initialized() { return find_group() != nullptr; }

const std::shared_ptr<ProcessGroup>& default_group() {
  const std::shared_ptr<ProcessGroup>& group = find_group();
  FERRITE_CHECK(group, ValueError, "default_group",
                "there is no default group: call init_process_group() first");
  return group;
}

int get_rank() {
  const auto& group = find_group();
  return group ? group->rank() : 0;
}

int get_world_size() {
  const auto& group = find_group();
  return group ? group->size() : 1;
}

DefaultGroupScope::DefaultGroupScope(std::shared_ptr<ProcessGroup> group)
    : previous_(std::exchange(of_thread, std::move(group))) {
  find_job_rank = rank_in_group;
}
DefaultGroupScope::~DefaultGroupScope() { of_thread = std::move(previous_); }

void all_reduce(const Tensor& tensor, ReduceOp op) {
  blocking([&](ProcessGroup& group) { return group.all_reduce(tensor, op); });
}
void broadcast(const Tensor& tensor, int root) {
  blocking([&](ProcessGroup& group) { return group.broadcast(tensor, root); });
}
void reduce(const Tensor& tensor, int root, ReduceOp op) {
  blocking([&](ProcessGroup& group) { return group.reduce(tensor, root, op); });
}
void all_gather(const Tensor& out, const Tensor& in) {
  blocking([&](ProcessGroup& group) { return group.all_gather(out, in); });
}
void reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op) {
  blocking([&](ProcessGroup& group) { return group.reduce_scatter(out, in, op); });
}
void send(const Tensor& tensor, int to) {
  blocking([&](ProcessGroup& group) { return group.send(tensor, to); });
}
void recv(const Tensor& tensor, int from) {
  blocking([&](ProcessGroup& group) { return group.recv(tensor, from); });
}
void barrier() {
  blocking([](ProcessGroup& group) { return group.barrier(); });
}

}  // namespace ferrite::parallel
