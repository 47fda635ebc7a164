// Averages of a model's weights, which often generalise better than the weights themselves:
// stochastic weight averaging (SWA, Izmailov et al. 2018) and exponential moving averages (EMA), as
// torch.optim.swa_utils has them.
//
//   optim::AveragedModel ema(model, {.decay = 0.999});
//   for (auto& [images, labels] : loader) {
//     ...
//     sgd.step();
//     ema.update_parameters(model);
//   }
//   {
//     optim::AveragedWeights averaged(model, ema);  // or ema.eval(), and evaluate with ema(images)
//     evaluate(model);
//   }  // and the model has its own weights again
//
// An update is one pass over all weights, waits for nothing, and can be part of a captured step:
// n_averaged lives on the device.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/module.h"
#include "ferrite/nn/norm.h"

namespace ferrite::optim {

/// The new average of a tensor from the old one, the model's tensor, and the number of values
/// averaged before (int64, on the device of the average).
using AveragingFunction =
    std::function<Tensor(const Tensor& averaged, const Tensor& current, const Tensor& n_averaged)>;

struct AveragedModelOptions {
  /// The decay of an EMA, from 0 to 1: average = decay * average + (1 - decay) * weight. Unset:
  /// SWA, the mean of all.
  std::optional<double> decay = {};
  /// An EMA's decay is at most 1 - (1 + n / warmup_gamma)^-warmup_power in the n-th update, so that
  /// the first weights are soon forgotten (as in timm).
  bool warmup = false;
  /// The unit of steps in which the decay grows: 1 - (1 + step / gamma)^-power.
  double warmup_gamma = 1;
  /// How fast the decay grows: 1 - (1 + step / gamma)^-power.
  double warmup_power = 2.0 / 3;
  /// Instead of both.
  AveragingFunction avg_fn = {};
  /// Whether floating-point buffers are averaged. Other buffers, or all if this is not set, are
  /// copies of the model's.
  bool use_buffers = false;
  /// The device of the averages; default: the model's.
  std::optional<Device> device = {};
  /// Their dtype; float32 is right for 16-bit models, whose own precision is too low for averages.
  std::optional<DType> dtype = {};
};

/// A module: a copy of the model, under the name "module", that holds the averages, and the buffer
/// n_averaged. The copy has the modes of the model, and its parameters do not require gradients.
/// Its state_dict() is PyTorch's. The first update copies the model.
class AveragedModel final : public nn::Cloneable<AveragedModel> {
 public:
  /// The model must be cloneable. ValueError for options out of range.
  explicit AveragedModel(const nn::Module& model, const AveragedModelOptions& options = {});

  Tensor forward(const Tensor& input) override { return module()(input); }
  /// The model with the averaged weights.
  nn::Module& module() const { return *children()[0]; }

  /// Takes the model's weights in, as they are now. ValueError unless it is built as the model that
  /// this was made of.
  void update_parameters(const nn::Module& model);
  /// The same with weights that lie elsewhere, in the order of parameters(): the float32 master
  /// weights of a model of 16 bits. Buffers are those of `model`.
  void update_parameters(const nn::Module& model, std::span<const Tensor> parameters);
  /// Copies averages and buffers into the model, converting dtype and device.
  void copy_to(nn::Module& model) const;

  Tensor n_averaged;  ///< int64, 0-dimensional

 private:
  void average(std::span<const Tensor> averages, std::span<const Tensor> values);

  AveragedModelOptions options_;
};

/// Puts the averages into a model for as long as this lives, to evaluate it; then the model has its
/// own weights and buffers again, in the memory where they were.
class AveragedWeights {
 public:
  AveragedWeights(nn::Module& model, const AveragedModel& averaged);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  std::vector<Tensor> tensors_, own_;
};

namespace detail {

/// Batch norms of a model while their statistics are taken anew: as the mean over all batches.
class FreshStatistics {
 public:
  explicit FreshStatistics(nn::Module& model);
  ~FreshStatistics();
  FreshStatistics(const FreshStatistics&) = delete;
  FreshStatistics& operator=(const FreshStatistics&) = delete;
  bool empty() const { return norms_.empty(); }

 private:
  std::vector<std::pair<nn::Module*, bool>> modes_;
  std::vector<std::pair<nn::BatchNorm*, std::optional<double>>> norms_;
};

inline const Tensor& first_of(const Tensor& batch) { return batch; }
template <class Batch>
const Tensor& first_of(const Batch& batch) {
  const auto& [inputs, labels] = batch;
  return inputs;
}

}  // namespace detail

/// torch.optim.swa_utils.update_bn: the running statistics of all batch norms, which averaging
/// leaves those of no weights, from one pass over `loader`, whose batches are tensors or pairs that
/// begin with one. Inputs go to `device` first. Norms in eval mode get
/// new statistics, too. Modes and momenta stay as they were.
template <class Loader>
void update_bn(Loader&& loader, nn::Module& model, std::optional<Device> device = {}) {
  NoGradGuard guard;
  const detail::FreshStatistics statistics(model);
  if (statistics.empty()) return;
  for (auto&& batch : loader) {
    const Tensor& inputs = detail::first_of(batch);
    model(device ? inputs.to(*device, non_blocking) : inputs);
  }
}

namespace swa_utils = ::ferrite::optim;  // optim::swa_utils::AveragedModel, as in PyTorch

}  // namespace ferrite::optim
