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
// The same lines serve every level. initialize() converts the model and has its calls convert their
// inputs and outputs (O2, O3), or run in an autocast region (O1); it gives the optimizers float32
// master weights (O2). The loss scale, and whether a step was skipped because gradients overflowed,
// are on the device, which alone decides: no step waits, and whole steps can be captured into a
// graph. docs/mixed_precision.md has the table of levels, several losses, and checkpoints.
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
#include "ferrite/optim/optimizer.h"

namespace ferrite::optim::amp {

class Amp {
 public:
  Amp(Amp&&) noexcept;
  Amp& operator=(Amp&&) noexcept;
  ~Amp();

  const Properties& properties() const;

  /// A region for what is computed outside of the models: O1's, and at other levels none.
  AutocastGuard autocast() const;

  /// The loss times the scale of loss `loss_id`, for its backward(). Gradients of several backward
  /// passes add up until the step, each freed of its own scale. ValueError unless
  /// loss_id < num_losses.
  Tensor scale(const Tensor& loss, std::size_t loss_id = 0);

  /// The parameters that steps update: masters where there are any. What gradients they have are
  /// unscaled first, so that they may be clipped or looked at; float32 beside 16-bit parameters.
  std::vector<Tensor> master_parameters();
  std::vector<Tensor> master_parameters(Optimizer& optimizer);
  /// Just that. ValueError the second time before a step, and where there are no gradients.
  void unscale_(Optimizer& optimizer);

  /// optimizer.step(), skipped on the device where a gradient is infinite or NaN and the scale is
  /// dynamic. Once all optimizers that have got gradients have stepped, scales change by what was
  /// found. ValueError for an optimizer that initialize() was not given.
  /// Where `skip` (one float32 number on the device, or undefined) is not 0 the step is skipped
  /// too, and counts as no overflow: a loss that has exploded, say.
  void step(Optimizer& optimizer, const Tensor& skip = {});
  /// Has the scales change now, where not all optimizers will step: a scale(), too, does so where
  /// one has. Nothing where nothing was looked for.
  void update();
  /// Of all optimizers. Theirs do as well.
  void zero_grad(bool set_to_none = false);

  /// Waits for the device.
  double loss_scale(std::size_t loss_id = 0) const;
  /// How many steps overflowed: one int64, on the device once a loss was scaled; for logs.
  Tensor overflows(std::size_t loss_id = 0) const;
  /// A line for each loss whose gradients have overflowed since the last call, "" for none. Waits
  /// for the device: call it where the loss is printed.
  std::string overflow_message();

  /// As Apex's: "loss_scaler0.loss_scale", "loss_scaler0.unskipped" and, beside those,
  /// "loss_scaler0.overflows". Master weights are in the optimizers' dicts.
  StateDict state_dict() const;
  /// Takes over dynamic scales, as copies; numbers that were given stay. ValueError where the dict
  /// is of another number of losses, or lacks an entry; nothing is changed then.
  void load_state_dict(const StateDict& dict);
  /// model.state_dict() in float32, with the values of the masters: what O0 resumes from, and what
  /// Apex's O2 saves.
  StateDict model_state_dict(const nn::Module& model) const;

 private:
  struct State;
  explicit Amp(std::shared_ptr<State> state);
  friend Amp initialize(const std::vector<nn::Module*>&, const std::vector<Optimizer*>&,
                        const Options&);

  std::shared_ptr<State> state_;
};

/// Prepares models, with float32 weights on the device where they will train, and the optimizers of
/// these weights, which stay the same objects; both must outlive the result and stay where they
/// are. Once a model. ValueError for bad options, for weights that are not float32, and for
/// modules or optimizers given twice.
Amp initialize(const std::vector<nn::Module*>& models, const std::vector<Optimizer*>& optimizers,
               const Options& options);
Amp initialize(nn::Module& model, Optimizer& optimizer, const Options& options);
Amp initialize(nn::Module& model, Optimizer& optimizer, OptLevel level = O1);

}  // namespace ferrite::optim::amp
