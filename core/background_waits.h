// Waiting for CUDA devices outside the training loop.
#pragma once

namespace ferrite::cuda {

/// While it lives, this thread's waits for devices are ignored by set_sync_debug_mode() and
/// synchronizations(), which check the training loop. For helper threads, such as one that writes a
/// checkpoint.
class BackgroundWaits {
 public:
  BackgroundWaits();
  ~BackgroundWaits();
  BackgroundWaits(const BackgroundWaits&) = delete;
  BackgroundWaits& operator=(const BackgroundWaits&) = delete;
};

}  // namespace ferrite::cuda
