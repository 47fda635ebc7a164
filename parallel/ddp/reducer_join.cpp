// Ranks with different numbers of batches.
#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/parallel/ddp/model_check.h"
#include "ferrite/parallel/ddp/reducer.h"

namespace ferrite::parallel::ddp {

namespace {

bool any(const std::vector<char>& flags) {
  return std::ranges::any_of(flags, [](char f) { return f != 0; });
}

int first(const std::vector<char>& flags) {
  return static_cast<int>(std::ranges::find(flags, 1) - flags.begin());
}

int last(const std::vector<char>& flags) {
  return static_cast<int>(flags.rend() - std::find(flags.rbegin(), flags.rend(), 1)) - 1;
}

}  // namespace

void Reducer::begin_join(const JoinOptions& options) {
  std::lock_guard lock(mutex_);
  FERRITE_CHECK(!join_, ValueError, "ddp", "a join is going on already");
  join_ = options;
  active_.clear();
}

/// Exchanges what each rank is about to do. If requested, throws on all ranks once one has no more
/// inputs.
Reducer::JoinFlags Reducer::exchange(bool active, bool sync, bool buffers) {
  const std::vector<std::int64_t> numbers = gather_numbers(*group_, {active, sync, buffers});
  JoinFlags flags;
  for (std::size_t i = 0; i < numbers.size(); i += 3) {
    flags.active.push_back(numbers[i] != 0);
    flags.sync.push_back(numbers[i + 1] != 0);
    flags.buffers.push_back(numbers[i + 2] != 0);
  }
  active_ranks_ = static_cast<int>(std::ranges::count(flags.active, 1));
  if (active_ranks_ > 0) active_ = flags.active;
  if (join_->throw_on_early_termination && active_ranks_ > 0 && active_ranks_ < group_->size()) {
    join_.reset();  // the others know
    fail<DistributedError>("ddp",
                           "rank {} has no more inputs, while {} of {} ranks have, and "
                           "throw_on_early_termination was given",
                           std::ranges::find(flags.active, 0) - flags.active.begin(), active_ranks_,
                           group_->size());
  }
  return flags;
}

void Reducer::join_forward(bool sync) {
  const bool buffers = sends_buffers(sync);
  const JoinFlags flags = exchange(true, sync, buffers);
  const int root = first(flags.active);
  if (sync) {
    check_frozen();
    if (rebuild_due_) rebuild(root);
  }
  if (any(flags.buffers)) broadcast_buffers(root);
  buffers_due_ = false;
}

void Reducer::finish_join() {
  std::lock_guard lock(mutex_);
  if (!join_) return;
  struct End {
    std::optional<JoinOptions>& join;
    ~End() { join.reset(); }
  } end{join_};
  const NoGradGuard guard;
  for (;;) {
    const JoinFlags flags = exchange(false, false, false);
    if (!any(flags.active)) break;
    try {
      shadow(flags);
    } catch (const std::exception& e) {  // the other ranks would wait for this one
      group_->abort(fmt::format("rank {} failed in a join: {}", group_->rank(), e.what()));
      throw;
    }
  }
  active_ranks_ = group_->size();
  if (any(active_)) broadcast_coalesced(*group_, all_tensors(), last(active_));
}

void Reducer::leave_join() {
  std::lock_guard lock(mutex_);
  if (!join_) return;
  join_.reset();
  group_->abort(fmt::format("rank {} left a join by an exception", group_->rank()));
}

/// Takes part in a forward and backward of other ranks.
void Reducer::shadow(const JoinFlags& flags) {
  const int root = first(flags.active);
  if (any(flags.sync) && rebuild_due_) rebuild(root);
  if (any(flags.buffers)) broadcast_buffers(root);
  buffers_due_ = false;
  if (any(flags.sync)) shadow_backward();
}

void Reducer::shadow_backward() {
  pass_.works.clear();
  pass_.missing_at_launch.clear();
  pass_.arrived.assign(parameters_.size(), 0);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Tensor& flat = buckets_[b].flat();
    kernels::fill(current_stream(flat.device()), flat, 0);
    pass_.works.push_back(communicate(b));
  }
  const bool exchanged = exchanges_used();
  if (exchanged) begin_used();
  wait_for_buckets();
  pass_.works.clear();
  if (exchanged && options_.static_graph) learn_static(read_used());
  std::ranges::fill(dirty_, 0);
  buffers_due_ = true;
  if (!std::exchange(started_, true))
    rebuild_due_ = options_.rebuild_buckets || options_.static_graph;
}

}  // namespace ferrite::parallel::ddp
