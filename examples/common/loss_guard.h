// Steps whose loss has exploded are skipped, on the device: the host does not wait to decide.
#pragma once

#include <cstdint>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/nn/module.h"

namespace examples {

/// A step is bad where its loss is not finite, or, once ten good ones have been seen, above
/// `factor` times their running mean (the mean over the first 50, then one that forgets by 2 % a
/// step). A few operations on single numbers decide that on the device and give a flag, which the
/// optimizer reads there as it reads a loss scaler's: where it is 1, nothing changes. Running
/// statistics of norms, which forward has updated by then, are put back as well. How many steps
/// were skipped is read with the next line of progress.
class LossGuard {
 public:
  /// `factor` 0: only losses that are not finite.
  LossGuard(const ferrite::nn::Module& model, const ferrite::Device& device, double factor);

  /// Before forward: keeps the model's buffers.
  void begin();
  /// After it, with the step's mean loss: 0 or 1, float32, on the device.
  ferrite::Tensor check(const ferrite::Tensor& loss);
  /// Puts the buffers back where check() gave 1.
  void end(const ferrite::Tensor& bad);

  /// The running mean, one float64 number on the device.
  const ferrite::Tensor& mean() const { return mean_; }

  struct Skipped {
    std::int64_t steps = 0;     ///< so far
    std::int64_t in_a_row = 0;  ///< the last ones
    double loss = 0;            ///< of the last of them
    double mean = 0;            ///< of the good ones, now
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
