// Mixed precision as Apex's amp does it.
//
//   optim::SGD sgd(model.parameters(), {.lr = 0.1});
//   auto amp = optim::amp::initialize(model, sgd, optim::amp::O2);
//   for (...) {
//     Tensor loss = cross_entropy(model(x), y);
//     sgd.zero_grad();
//     amp.scale(loss).backward();
//     optim::clip_grad_norm_(amp.master_parameters(), 10.0);
//     amp.step(sgd);
//   }
//
// The same lines serve every level. initialize() converts the model, makes its calls convert their
// inputs and outputs (O2, O3) or run in an autocast region (O1), and gives the optimizers float32
// master weights (O2). The loss scale is on the device, which also decides whether a step is
// skipped because gradients overflowed: no step waits, and whole steps can be captured into a
// graph. docs/mixed_precision.md describes the levels, several losses, and checkpoints.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/nn/module.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/optim/amp/options.h"
#include "ferrite/optim/grad_scaler.h"
#include "ferrite/optim/optimizer.h"

namespace ferrite::optim::amp {

class Amp {
 public:
  Amp(Amp&&) noexcept;
  Amp& operator=(Amp&&) noexcept;
  ~Amp();

  /// The options that the opt level and the arguments made.
  const Properties& properties() const;

  /// A region for computations outside the models: that of O1; at other levels it does nothing.
  AutocastGuard autocast() const;

  /// The loss times the scale of loss `loss_id`, for its backward(). Gradients of several backward
  /// passes add up until the step, each divided by its own scale. ValueError unless
  /// loss_id < num_losses.
  Tensor scale(const Tensor& loss, std::size_t loss_id = 0);

  /// The parameters that steps update: the masters, if there are any. Their gradients are unscaled
  /// first, so they can be clipped or read; those of 16-bit parameters' masters are float32.
  std::vector<Tensor> master_parameters();
  std::vector<Tensor> master_parameters(Optimizer& optimizer);
  /// Only unscales, at levels with a scale or masters; there, ValueError the second time before a
  /// step, and without gradients.
  void unscale_(Optimizer& optimizer);

  /// In place of optimizer.step(), which refuses scaled gradients. The device skips the step if a
  /// gradient is infinite or NaN and the scale is dynamic. Scales change when all optimizers that
  /// have gradients have stepped. ValueError for an optimizer that initialize() was not given.
  /// If `skip` (one float32 number on the device, or undefined) is not 0, the step is skipped too,
  /// which does not count as an overflow: for a loss that has diverged, for example.
  void step(Optimizer& optimizer, const Tensor& skip = {});
  /// Changes the scales now, if not all optimizers will step; the next scale() does so, too, after
  /// one has. Does nothing if no gradients were checked.
  void update();
  /// For all optimizers; each optimizer's own zero_grad() works as well.
  void zero_grad(bool set_to_none = true);

  /// Waits for the device.
  double loss_scale(std::size_t loss_id = 0) const;
  /// How many steps overflowed: one int64, on the device once a loss was scaled, where later steps
  /// change it; for logs.
  Tensor overflows(std::size_t loss_id = 0) const;
  /// A line for each loss whose gradients have overflowed since the last call, "" if none has.
  /// Waits for the device: call it where the loss is printed.
  std::string overflow_message();

  /// As Apex's: "loss_scaler0.loss_scale", "loss_scaler0.unskipped" and, beside those,
  /// "loss_scaler0.overflows", which later steps do not change. Master weights are in the
  /// optimizers' dicts.
  StateDict state_dict() const;
  /// Copies dynamic scales; constant ones stay. ValueError if the dict has another number of losses
  /// or lacks an entry; nothing is changed then.
  void load_state_dict(const StateDict& dict);
  /// model.state_dict() in float32, with the values of the masters, as Apex's O2 saves it. O0 can
  /// resume from it.
  StateDict model_state_dict(const nn::Module& model) const;

 private:
  struct State;
  explicit Amp(std::shared_ptr<State> state);
  friend Amp initialize(const std::vector<nn::Module*>&, const std::vector<Optimizer*>&,
                        const Options&);

  std::shared_ptr<State> state_;
};

/// Prepares models, whose float32 weights are on the device of the training, and the optimizers of
/// these weights. Weights stay the same objects; models and optimizers must outlive the result and
/// must not be moved. Once per model. ValueError for bad options, for weights of 16 bits, and for
/// modules or optimizers given twice. Weights of float64 are converted as those of float32 are.
Amp initialize(const std::vector<nn::Module*>& models, const std::vector<Optimizer*>& optimizers,
               const Options& options);
Amp initialize(nn::Module& model, Optimizer& optimizer, const Options& options);
Amp initialize(nn::Module& model, Optimizer& optimizer, OptLevelOrName level = O1);

/// torch.amp's names.
using ferrite::optim::GradScaler;
/// torch.amp.autocast: a region at every opt level. Amp::autocast() follows the level.
using autocast = AutocastGuard;

}  // namespace ferrite::optim::amp

namespace ferrite {
namespace amp = optim::amp;
}  // namespace ferrite
