// Optimizer steps: all parameters of a group in one launch.
//
// Values that change from step to step (learning rate, step counts, loss scale) are read on the
// device when the kernel runs, so that a captured launch can be replayed. 16-bit types are computed
// in float32.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "ferrite/kernels/kernel.h"
#include "ferrite/kernels/multi_tensor.h"

namespace ferrite::kernels {

/// One parameter: arrays of `numel` elements of one dtype, dense and in the same order.
struct OptimTensor {
  void* param = nullptr;
  const void* grad = nullptr;
  void* state[3] = {};  // null where unused
  std::int64_t numel = 0;
  std::int64_t* step = nullptr;  ///< updates so far; the kernel increments it
  /// For a float32 `param`: its 16-bit copy, written in the same pass (the model's weights, of
  /// which `param` is the master copy). Null: none.
  void* copy = nullptr;
  /// LARS and LAMB: whether the trust ratio and weight decay apply to this parameter.
  bool adapts = true;
};

struct OptimBatch {
  std::vector<OptimTensor> tensors;
  DType dtype = kFloat32;
  std::optional<DType> grad_dtype = {};  ///< 16-bit if `dtype` is float32; unset: dtype
  DType copy_dtype = kFloat16;           ///< float16 or bfloat16
  const double* lr = nullptr;
  const double* momentum = nullptr;  ///< or beta1; null: the value in the arguments
  const float* inv_scale = nullptr;  ///< factor of the gradients; null: 1
  const float* found_inf = nullptr;  ///< if it is not 0, nothing changes; null: 0
};

struct SgdArgs {
  double momentum, dampening, weight_decay;
  bool nesterov, maximize;
};
/// state: momentum buffer (null without momentum).
FERRITE_KERNEL(sgd, const OptimBatch& batch, const SgdArgs& args);

struct AdamArgs {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  ///< weight decay acts on the parameter (AdamW), not on the gradient
  bool amsgrad, maximize;
};
/// state: first moment, second moment, its maximum (null unless amsgrad).
FERRITE_KERNEL(adam, const OptimBatch& batch, const AdamArgs& args);

struct RmspropArgs {
  double alpha, eps, weight_decay, momentum;
  bool centered, maximize;
};
/// state: mean square, momentum buffer (null without momentum), mean (null unless centered).
FERRITE_KERNEL(rmsprop, const OptimBatch& batch, const RmspropArgs& args);

/// SGD whose gradients are scaled by a trust ratio per parameter w (You, Gitman and Ginsburg 2017):
/// trust_coefficient |w| / (|g| + weight_decay |w| + eps), or 1 if |w| or |g| is 0. Norms are
/// Euclidean, summed in float64, always in the same order.
struct LarsArgs {
  double momentum, dampening, weight_decay, trust_coefficient, eps;
  bool trust_clip;  ///< LARC: the step size is min(ratio, lr) instead of ratio * lr
  bool nesterov, maximize;
};
/// state: momentum buffer (null without momentum).
FERRITE_KERNEL(lars, const OptimBatch& batch, const LarsArgs& args);

/// w -= lr * ratio * u, with Adam's u = m / (sqrt(v) + eps) + weight_decay w and the trust ratio
/// |w| / |u|, clamped to the bounds, or 1 if either norm is 0 (You et al. 2020).
struct LambArgs {
  double beta1, beta2, eps, weight_decay, min_trust_ratio, max_trust_ratio;
  bool bias_correction, maximize;
};
/// state: first moment, second moment.
FERRITE_KERNEL(lamb, const OptimBatch& batch, const LambArgs& args);

// ---- Averages of weights

/// The weight of a new value in the average of the previous ones.
struct AverageArgs {
  /// Decay of an exponential average; negative: all values have equal weight.
  double decay = -1;
  /// The decay of the n-th update is at most 1 - (1 + n / warmup_gamma)^-warmup_power.
  bool warmup = false;
  double warmup_gamma = 1, warmup_power = 2.0 / 3;
};
/// weight (float64, one element) = the weight of the next value; increments `count`, the number of
/// values so far. The first value has weight 1.
FERRITE_KERNEL(average_weight, std::int64_t* count, const View& weight, const AverageArgs& args);
/// average += weight * (value - average), array by array; a copy if the weight is 1. The dtypes are
/// equal, or one is float32 and the other has 16 bits.
FERRITE_KERNEL(average_all, const FlatTensors& averages, const FlatTensors& values,
               const View& weight);

// ---- Loss scales

/// A loss scale and the state of its updates: one number each, on the device.
struct LossScale {
  float* scale;
  float* inv_scale;              ///< 1 / scale
  std::int64_t* growth_tracker;  ///< updates without overflow since the scale last changed
  std::int64_t* overflows;       ///< updates with overflow, ever
};
struct UpdateScaleArgs {
  double growth_factor, backoff_factor;
  std::int64_t growth_interval;
  double min_scale = 0, max_scale = std::numeric_limits<double>::infinity();
};
/// If one of the flags `found_inf` is not 0, scale *= backoff_factor, but not below min_scale, and
/// the growth tracker restarts at 0. Otherwise the tracker is incremented, and at every
/// growth_interval-th time scale *= growth_factor, but not above max_scale and not to infinity.
/// Then resets the flags to 0 for the next step.
FERRITE_KERNEL(update_scale, const LossScale& scale, const std::vector<float*>& found_inf,
               const UpdateScaleArgs& args);

}  // namespace ferrite::kernels
