// LossGuard: skips steps whose loss has exploded. The device decides, so that the host does not
// wait.
#pragma once

#include <cstdint>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/nn/module.h"

namespace examples {

/// A step is bad if its loss is not finite or, after ten good steps, above `factor` times their
/// running mean (the mean over the first 50, then an exponential one with a decay of 2 % per step).
/// A few operations on single numbers compute a flag on the device, which the optimizer reads like
/// that of a loss scaler: if it is 1, nothing changes. Running statistics of norms, which forward
/// has already updated, are restored as well. The number of skipped steps is read with the next
/// progress line.
class LossGuard {
 public:
  /// If `factor` is 0, only losses that are not finite count as bad.
  LossGuard(const ferrite::nn::Module& model, const ferrite::Device& device, double factor);

  /// To be called before forward: saves the model's buffers.
  void begin();
  /// To be called after forward with the step's mean loss. Returns the flag: 0 or 1, float32, on
  /// the device.
  ferrite::Tensor check(const ferrite::Tensor& loss);
  /// Restores the buffers if the flag of check() is 1.
  void end(const ferrite::Tensor& bad);

  /// The running mean, one float64 number on the device.
  const ferrite::Tensor& mean() const { return mean_; }

  struct Skipped {
    std::int64_t steps = 0;     ///< so far
    std::int64_t in_a_row = 0;  ///< consecutive, up to the last step
    double loss = 0;            ///< of the last skipped step
    double mean = 0;            ///< current running mean of good steps
  };
  /// Waits for the device.
  Skipped skipped() const;

  ferrite::StateDict state_dict() const { return {{"state", state_}}; }
  void load_state_dict(const ferrite::StateDict& dict);

 private:
  double factor_;
  ferrite::Tensor state_;  // float64 [5], with views of its elements:
  ferrite::Tensor good_, mean_, skipped_, in_a_row_, last_;
  std::vector<ferrite::Tensor> buffers_, before_;
};

}  // namespace examples
