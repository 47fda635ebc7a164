// Waits for CUDA devices beside the training.
#pragma once

namespace ferrite::cuda {

/// While it lives, this thread waits for devices on nobody's account: what set_sync_debug_mode()
/// forbids and synchronizations() counts is the waiting of those who train. For threads of their
/// own, such as one that writes a checkpoint.
class BackgroundWaits {
 public:
  BackgroundWaits();
  ~BackgroundWaits();
  BackgroundWaits(const BackgroundWaits&) = delete;
  BackgroundWaits& operator=(const BackgroundWaits&) = delete;
};

}  // namespace ferrite::cuda
