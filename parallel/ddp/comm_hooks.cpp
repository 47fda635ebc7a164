#include "ferrite/parallel/ddp/comm_hooks.h"

#include <algorithm>

#include "ferrite/kernels/copy.h"

namespace ferrite::parallel {

const Tensor& GradBucket::scratch(DType dtype) const {
  const auto known =
      std::ranges::find_if(scratch_, [&](const Tensor& t) { return t.dtype() == dtype; });
  if (known != scratch_.end()) return *known;
  return scratch_.emplace_back(
      empty(buffer_.shape(), {.dtype = dtype, .device = buffer_.device()}));
}

namespace comm_hooks {

namespace {

CommWork compress(GradBucket& bucket, DType dtype) {
  const Tensor& full = bucket.buffer();
  if (itemsize(full.dtype()) <= itemsize(dtype)) return allreduce(bucket);
  const Tensor small = bucket.scratch(dtype);
  kernels::copy(current_stream(full.device()), small, full);
  return {.work = bucket.group().all_reduce(small, ReduceOp::avg),
          .finish = [full, small] { kernels::copy(current_stream(full.device()), full, small); }};
}

}  // namespace

CommWork allreduce(GradBucket& bucket) {
  return {.work = bucket.group().all_reduce(bucket.buffer(), ReduceOp::avg)};
}

CommWork fp16_compress(GradBucket& bucket) { return compress(bucket, kFloat16); }

CommWork bf16_compress(GradBucket& bucket) { return compress(bucket, kBFloat16); }

CommWork noop(GradBucket&) { return {}; }

}  // namespace comm_hooks

}  // namespace ferrite::parallel
