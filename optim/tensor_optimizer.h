// TensorOptimizer: an optimizer whose step is written in tensor operations, for one parameter.
//
//   struct SignSGDOptions {
//     double lr = 1e-3;
//     double momentum = 0.9;
//
//     static constexpr const char* kName = "SignSGD";
//     Fields fields() { return {{"lr", &lr, kNonNegative}, {"momentum", &momentum, kBelowOne}}; }
//   };
//
//   class SignSGD final : public TensorOptimizer<SignSGDOptions> {
//    public:
//     using TensorOptimizer::TensorOptimizer;
//
//    private:
//     void update(ParameterStep& p, const SignSGDOptions&) override {
//       const Tensor buffer = p.state("momentum_buffer");
//       buffer.mul_(p.momentum).add_(p.grad);
//       p.param.sub_(p.lr * sign(buffer));
//     }
//   };
//
// Groups, schedules, 16-bit parameters, master weights, loss scales, checkpoints and captured steps
// need no more code. Values that change from step to step must be tensors: p.lr, p.momentum and
// p.step(). Other options are numbers, which a captured step keeps.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/autograd/autocast.h"
#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

/// A parameter in a step. All tensors are on its device.
class ParameterStep {
  // A loss scaler's flag on the device that nothing is to change, if any, and what takes the place
  // of tensors that the step may not change at once.
  const Tensor skip_;
  std::vector<std::pair<Tensor, Tensor>> copies_;

 public:
  ParameterStep(const Optimizer& optimizer, const Optimizer::Update& u,
                const Optimizer::Controls& c);

  /// To be changed in place; float32 for 16-bit parameters.
  const Tensor param;
  /// The gradient, in param's dtype, without the loss scale. Not to be changed.
  const Tensor grad;
  /// 0-dimensional, float64. `momentum` (or the first beta) is undefined where options have none.
  const Tensor lr, momentum;

  /// State that is kept from step to step, by name: zeros at first, of param's dtype and shape
  /// (unless Optimizer::state_shape is overridden). To be changed in place.
  Tensor state(std::string_view name);
  /// How many updates the parameter has had, this one included: 0-dimensional, int64.
  Tensor step() const;

  /// Whether a loss scaler's flag, which the host can read without waiting, says to skip the step.
  static bool is_skipped(const Optimizer::Controls& c);
  /// Ends the step; TensorOptimizer calls it.
  void finish();

 private:
  Tensor changeable(const Tensor& stored);

  const Optimizer& optimizer_;
  const Optimizer::Update& update_;
};

template <class Options>
class TensorOptimizer : public OptimizerWith<Options> {
 public:
  using OptimizerWith<Options>::OptimizerWith;

 protected:
  /// One step of one parameter; gradients are not recorded, and autocast is off.
  virtual void update(ParameterStep& p, const Options& options) = 0;

 private:
  void step_group(std::size_t group, const Tensor& inv_scale, const Tensor& found_inf) final {
    const autograd::AutocastScope no_autocast(nullptr);
    for (const Optimizer::Update& u : this->updates(group)) {
      const auto controls = this->controls(group, u.updated.device(), inv_scale, found_inf);
      if (ParameterStep::is_skipped(controls)) continue;
      ParameterStep p(*this, u, controls);
      update(p, std::as_const(*this).options(group));
      p.finish();
    }
  }
};

}  // namespace ferrite::optim
