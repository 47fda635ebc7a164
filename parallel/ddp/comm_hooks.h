// Communication hooks of DistributedDataParallel: they replace the all-reduce of a bucket of
// gradients.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

/// A bucket with complete gradients, as passed to hooks.
class GradBucket {
 public:
  GradBucket(ProcessGroup& group, std::size_t index, std::size_t count, const Tensor& buffer,
             std::span<const Tensor> gradients, std::span<const Tensor> parameters,
             std::vector<Tensor>& scratch)
      : group_(group),
        index_(index),
        count_(count),
        buffer_(buffer),
        gradients_(gradients),
        parameters_(parameters),
        scratch_(scratch) {}

  ProcessGroup& group() const { return group_; }
  /// The number of the bucket.
  std::size_t index() const { return index_; }
  /// Whether the bucket is the last of the step.
  bool is_last() const { return index_ + 1 == count_; }
  /// All gradients in one dimension, which the hook changes in place. There are zeros between them,
  /// because each begins at a multiple of 64 bytes.
  const Tensor& buffer() const { return buffer_; }
  /// Views of it, one per parameter.
  std::span<const Tensor> gradients() const { return gradients_; }
  std::span<const Tensor> parameters() const { return parameters_; }
  /// A tensor like buffer() in another dtype, kept between steps.
  const Tensor& scratch(DType dtype) const;

 private:
  ProcessGroup& group_;
  const std::size_t index_, count_;
  const Tensor buffer_;
  const std::span<const Tensor> gradients_, parameters_;
  std::vector<Tensor>& scratch_;
};

/// The operation that a hook has started.
struct CommWork {
  /// Waited for at the end of backward; undefined if there is nothing to wait for.
  Work work = {};
  /// Called after that, to put the result into the bucket's buffer(); may be empty.
  std::function<void()> finish = {};
};

/// Called with each bucket on every rank in the same order, during backward; must call the same
/// operations on all ranks. The hook itself divides by the number of ranks. This one averages as
/// usual:
///
///   ddp.register_comm_hook([](parallel::GradBucket& bucket) -> parallel::CommWork {
///     return {.work = bucket.group().all_reduce(bucket.buffer(), parallel::ReduceOp::avg)};
///   });
using CommHook = std::function<CommWork(GradBucket&)>;

/// PyTorch's default_hooks.
namespace comm_hooks {

/// The average, as without a hook.
CommWork allreduce(GradBucket& bucket);
/// Gradients are sent as float16 (values beyond 65504 become infinite) and added as the backend
/// does (ReduceOp): `ddp.register_comm_hook(parallel::comm_hooks::fp16_compress)`. Those of 16
/// bits are sent as they are.
CommWork fp16_compress(GradBucket& bucket);
/// Gradients are sent as bfloat16 and added as the backend does (ReduceOp).
CommWork bf16_compress(GradBucket& bucket);
/// Leaves gradients as they are: for measuring the cost of communication.
CommWork noop(GradBucket& bucket);

}  // namespace comm_hooks

}  // namespace ferrite::parallel
