#include "ferrite/parallel/comm/nccl/operation.h"

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/nccl/backoff.h"

namespace ferrite::parallel::nccl {

bool OperationWork::done() {
  // An operation in a graph is complete once it is recorded.
  return operation_->captured || failed() || operation_->end->passed();
}

void OperationWork::wait() {
  if (failed()) failure_->check(operation_->op);
  if (waiting_ == Waiting::host && !operation_->captured) return synchronize();
  const Stream stream = current_stream(device_);
  FERRITE_CHECK(!operation_->captured || ferrite::detail::cuda::is_capturing(stream), CudaError,
                operation_->op,
                "the operation was captured into a graph, which has to wait for it too: call "
                "wait() in the capture");
  stream.impl()->wait(operation_->end);
}

void OperationWork::synchronize() {
  FERRITE_CHECK(!operation_->captured, CudaError, operation_->op,
                "the operation is part of a graph that is being captured: it has not begun. Wait "
                "for the stream of a replay");
  if (!operation_->end->passed()) {
    cuda::detail::about_to_wait(operation_->op);
    // Polls instead of waiting in the runtime, whose wait would not end if a rank is lost. The
    // watchdog enforces the timeout.
    for (Backoff backoff; !failed() && !operation_->end->passed();) backoff.pause();
  }
  // Aborted operations pass their mark as well.
  if (failed()) failure_->check(operation_->op);
}

std::optional<std::pair<Clock::time_point, Clock::time_point>> OperationWork::ran() {
  if (operation_->captured || !operation_->base || failed() || !operation_->end->passed())
    return std::nullopt;
  const auto at = [&](Mark& mark) -> std::optional<Clock::time_point> {
    const auto milliseconds = mark.milliseconds_since(*operation_->base->mark);
    if (!milliseconds) return std::nullopt;
    return operation_->base->time + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double, std::milli>(*milliseconds));
  };
  const auto begin = at(*operation_->begin), end = at(*operation_->end);
  if (!begin || !end) return std::nullopt;
  return std::pair(*begin, *end);
}

}  // namespace ferrite::parallel::nccl
