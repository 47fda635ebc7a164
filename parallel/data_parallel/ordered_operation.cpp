#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/parallel/data_parallel/device_comm_backends.h"
#include "ferrite/parallel/data_parallel/device_comm_layout.h"

namespace ferrite::parallel::dp {

std::vector<Stream> own_streams(std::span<const Device> devices) {
  std::vector<Stream> streams;
  for (const Device& device : devices)
    streams.push_back(Stream::create(device, StreamPriority::high));
  return streams;
}

OrderedOperation::Mark OrderedOperation::mark_of(const Stream& stream) {
  if (stream.device().is_cpu() && stream.query()) return nullptr;
  return stream.impl()->record(ferrite::detail::Timing::none);
}

OrderedOperation::OrderedOperation(const char* op, std::span<const Device> devices,
                                   std::span<const Stream> streams)
    : streams_(streams),
      marks_(devices.size()),
      after_(devices.size(), std::vector<bool>(devices.size())) {
  for (const Device& device : devices) {
    currents_.push_back(current_stream(device));
    FERRITE_CHECK(!ferrite::detail::cuda::is_capturing(currents_.back()), CudaError, op,
                  "the stream of {} is being captured into a graph, which cannot hold what devices "
                  "exchange; call it outside of the capture",
                  device);
  }
}

OrderedOperation::~OrderedOperation() {
  try {
    end();
  } catch (const std::exception&) {  // a device is lost, where no work runs any more
  }
}

/// Recorded on first use, so that it comes after allocations for the operation, which debugging
/// allocators fill in stream order.
const OrderedOperation::Mark& OrderedOperation::mark_of_current(std::size_t d) {
  if (!marks_[d]) marks_[d] = mark_of(currents_[d]);
  return *marks_[d];
}

void OrderedOperation::keep(std::size_t d, Tensor t) {
  if (after_[d][d]) streams_[d].wait(currents_[d]);
  kept_.push_back(std::move(t));
}

Tensor OrderedOperation::dense(std::size_t d, const Tensor& t, const Strides& strides) {
  if (lies_as(t, strides)) return t;
  const Tensor copy = empty_strided(t.shape(), strides, {.dtype = t.dtype(), .device = t.device()});
  keep(d, copy);
  kernels::copy(stream(d), copy, t);
  return copy;
}

const Stream& OrderedOperation::stream(std::size_t d) { return stream_after(d, d); }

const Stream& OrderedOperation::stream_after(std::size_t d, std::size_t other) {
  for (const std::size_t which : {d, other}) {
    if (after_[d][which]) continue;
    after_[d][which] = true;
    if (const Mark& mark = mark_of_current(which)) streams_[d].impl()->wait(mark);
  }
  return streams_[d];
}

void OrderedOperation::chain(std::size_t d, std::size_t other) {
  stream(d);
  if (d == other || !after_[other][other]) return;
  if (const Mark mark = mark_of(streams_[other])) streams_[d].impl()->wait(mark);
}

void OrderedOperation::end() {
  for (std::size_t d = 0; d < after_.size(); ++d) {
    if (!after_[d][d]) continue;
    const Mark mark = mark_of(streams_[d]);
    for (std::size_t other = 0; other < after_.size(); ++other)
      if (mark && after_[d][other]) currents_[other].impl()->wait(mark);
    after_[d].assign(after_.size(), false);
  }
  kept_.clear();
}

}  // namespace ferrite::parallel::dp
