#include "ferrite/parallel/comm/device_access.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "ferrite/core/background_waits.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"

namespace ferrite::parallel::comm {

QueuedWork::QueuedWork(const Device& device, const char* op) {
  if (device.is_host()) return;
  const Stream stream = current_stream(device);
  FERRITE_CHECK(!ferrite::detail::cuda::is_capturing(stream), CudaError, op,
                "the stream of {} is being captured into a graph, and groups that work in the host "
                "cannot become part of one: use nccl, or call it outside of the capture",
                device);
  // If the stream's own work calls an operation, only earlier work can be meant.
  if (ferrite::detail::running_in(stream.impl()) || (device.is_cpu() && stream.query())) return;
  mark_ = stream.impl()->record(ferrite::detail::Timing::none);
}

void QueuedWork::wait(const links::Interrupt& interrupt) const {
  if (mark_) wait_for(*mark_, interrupt);
}

void wait_for(ferrite::detail::Mark& mark, const links::Interrupt& interrupt) {
  Backoff backoff;
  while (!mark.passed()) {
    interrupt.check();
    backoff.pause();
  }
}

StagedTensor::StagedTensor(const Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0) return;
  if (tensor.device().is_cpu()) {
    direct_ = tensor.data_ptr();
    return;
  }
  tensor_ = tensor;
  staged_ = empty({static_cast<std::int64_t>(tensor.nbytes())},
                  {.dtype = kUInt8, .device = kCPU, .pinned = true});
}

void StagedTensor::copy(Direction direction, const links::Interrupt& interrupt) const {
  if (!staged_.defined()) return;
  const Device host, device = tensor_.device();
  const std::size_t bytes = tensor_.nbytes();
  // This wait belongs to communication, not to the training step.
  const ferrite::cuda::BackgroundWaits scope;
  const Stream stream = Stream::create(device, StreamPriority::high);
  // An interrupted operation leaves the copy running.
  staged_.storage()->record_stream(stream);
  tensor_.storage()->record_stream(stream);
  if (direction == Direction::to_host)
    ferrite::detail::cuda::copy_bytes(stream, staged_.data_ptr(), host, tensor_.data_ptr(), device,
                                      bytes);
  else
    ferrite::detail::cuda::copy_bytes(stream, tensor_.data_ptr(), device, staged_.data_ptr(), host,
                                      bytes);
  wait_for(*stream.impl()->record(ferrite::detail::Timing::none), interrupt);
}

void StagedTensor::fetch(const links::Interrupt& interrupt) const {
  copy(Direction::to_host, interrupt);
}
void StagedTensor::put_back(const links::Interrupt& interrupt) const {
  copy(Direction::to_device, interrupt);
}

void Backoff::pause() {
  if (++turns_ <= kSpins) return links::relax();
  const int late = std::min(turns_ - kSpins, 20);
  std::this_thread::sleep_for(std::chrono::microseconds(50 * late));
}

}  // namespace ferrite::parallel::comm
