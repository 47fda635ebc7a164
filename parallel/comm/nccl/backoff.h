// Polling with back-off, for host-side waits without a notification.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace ferrite::parallel::nccl {

/// Spins a few times, for waits of microseconds; then sleeps up to a millisecond. It does not
/// yield, which costs a time slice on a busy machine.
class Backoff {
 public:
  void pause() {
    if (++tries_ < 32) return;
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, std::chrono::microseconds(1000));
  }

 private:
  int tries_ = 0;
  std::chrono::microseconds sleep_{10};
};

}  // namespace ferrite::parallel::nccl
