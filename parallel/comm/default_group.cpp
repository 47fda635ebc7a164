// The default group, and blocking operations on it.
#include "ferrite/parallel/comm/default_group.h"

#include <mutex>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/host_worker.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel::comm {

namespace {

/// Never destroyed: a process that ends does not wait for what its group has under way.
struct Process {
  std::mutex mutex;
  std::shared_ptr<ProcessGroup> group;
};
Process& process() {
  static Process& instance = *new Process;
  return instance;
}

thread_local std::shared_ptr<ProcessGroup> of_thread;

const std::shared_ptr<ProcessGroup>& find_group() {
  if (of_thread) return of_thread;
  Process& p = process();
  std::lock_guard lock(p.mutex);
  return p.group;
}

/// Runs an operation on the default group to its end.
template <class F>
void blocking(F&& f) {
  const std::shared_ptr<ProcessGroup> group = default_group();
  const AboutToWait scope;
  f(*group).wait();
}

}  // namespace

std::shared_ptr<ProcessGroup> detail::exchange_process_group(std::shared_ptr<ProcessGroup> group) {
  Process& p = process();
  std::lock_guard lock(p.mutex);
  return std::exchange(p.group, std::move(group));
}

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
    : previous_(std::exchange(of_thread, std::move(group))) {}
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

}  // namespace ferrite::parallel::comm
