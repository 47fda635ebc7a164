#include "ferrite/parallel/comm/nccl/communicator.h"

#include <thread>
#include <utility>

#include "ferrite/core/cuda/context.h"
#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/nccl/backoff.h"

namespace ferrite::parallel::nccl {

namespace {

bool is_over(Deadline deadline) { return std::chrono::steady_clock::now() >= deadline; }

}  // namespace

ncclResult_t Communicator::poll() {
  ncclResult_t result = ncclSuccess;
  const ncclResult_t status = library_.async_error(communicator_, &result);
  return status == ncclSuccess ? result : status;
}

void Communicator::connect(const ncclUniqueId& id, int rank, int size, Deadline deadline) {
  constexpr std::string_view kOp = "init_process_group";
  {
    const std::lock_guard lock(mutex_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t result = library_.init_rank_config(&communicator_, size, id, rank, &config);
    FERRITE_CHECK(result == ncclSuccess || result == ncclInProgress, DistributedError, kOp, "{}",
                  describe(library_, result, nullptr));
  }
  try {
    call(kOp, deadline, [](const Library&, ncclComm_t) { return ncclInProgress; });
  } catch (const Error&) {
    abort();
    throw;
  }
}

void Communicator::call(std::string_view op, Deadline deadline,
                        const std::function<ncclResult_t(const Library&, ncclComm_t)>& f) {
  Backoff backoff;
  for (bool first = true;; first = false) {
    {
      const std::lock_guard lock(mutex_);
      failure_.check(op);
      FERRITE_CHECK(communicator_, DistributedError, op, "the communicator was aborted");
      const ncclResult_t result = first ? f(library_, communicator_) : poll();
      if (result == ncclSuccess) return;
      FERRITE_CHECK(result == ncclInProgress, DistributedError, op, "{}",
                    describe(library_, result, communicator_));
    }
    FERRITE_CHECK(!is_over(deadline), DistributedError, op,
                  "NCCL has not connected to all ranks in time; {}, and NCCL_SOCKET_IFNAME tells "
                  "it which network to use",
                  kAdvice);
    backoff.pause();
  }
}

std::string Communicator::async_error() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !communicator_) return "";
  const ncclResult_t result = poll();
  return result == ncclSuccess || result == ncclInProgress
             ? ""
             : describe(library_, result, communicator_);
}

bool Communicator::finish(Deadline deadline) {
  Backoff backoff;
  for (bool first = true;; first = false) {
    {
      const std::lock_guard lock(mutex_);
      if (!communicator_) return true;
      // It frees memory, which would otherwise invalidate this thread's capture.
      const cuda::detail::CaptureRelaxed relaxed;
      const ncclResult_t result = first ? library_.finalize(communicator_) : poll();
      if (result == ncclSuccess) {
        release([&library = library_, communicator = std::exchange(communicator_, nullptr)] {
          const cuda::detail::CaptureRelaxed relaxed;
          library.destroy(communicator);
        });
        return true;
      }
      if (result != ncclInProgress) return false;
    }
    if (is_over(deadline) || failure_.is_set()) return false;
    backoff.pause();
  }
}

void Communicator::abort() {
  const std::lock_guard lock(mutex_);
  if (!communicator_) return;
  release([&library = library_, communicator = std::exchange(communicator_, nullptr)] {
    // It frees memory, which would otherwise invalidate another thread's capture.
    const cuda::detail::CaptureRelaxed relaxed;
    library.abort(communicator);
  });
}

/// NCCL ends the device's work at once, but returns only when the last graph is destroyed.
void Communicator::release(const std::function<void()>& f) {
  if (captured_)
    std::thread(f).detach();
  else
    f();
}

}  // namespace ferrite::parallel::nccl
