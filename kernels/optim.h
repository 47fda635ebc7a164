// Optimizer steps: all parameters of a group in one launch.
//
// What changes from step to step (learning rate, step counts, loss scale) is read on the device
// when the kernel runs, so that a recorded launch can be replayed. 16-bit types compute in float.
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
  std::int64_t* step = nullptr;  ///< updates so far; counted up by the kernel
  /// Beside float32 parameters: the same in 16 bits, written in the same pass (the weights of a
  /// model whose master weights `param` are). Null: none.
  void* copy = nullptr;
  /// LARS and LAMB: whether it has a trust ratio and weight decay.
  bool adapts = true;
};

struct OptimBatch {
  std::vector<OptimTensor> tensors;
  DType dtype = kFloat32;
  std::optional<DType> grad_dtype = {};  ///< float16 or bfloat16 beside float32; unset: dtype
  DType copy_dtype = kFloat16;           ///< float16 or bfloat16
  const double* lr = nullptr;
  const double* momentum = nullptr;  ///< or beta1; null: that of the arguments
  const float* inv_scale = nullptr;  ///< factor of the gradients; null: 1
  const float* found_inf = nullptr;  ///< where it is not 0 nothing changes; null: 0
};

struct SgdArgs {
  double momentum, dampening, weight_decay;
  bool nesterov, maximize;
};
/// state: momentum buffer (null where there is no momentum).
FERRITE_KERNEL(sgd, const OptimBatch& batch, const SgdArgs& args);

struct AdamArgs {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  ///< weight decay on the parameter (AdamW), not through the gradient
  bool amsgrad, maximize;
};
/// state: first moment, second moment, its maximum (null unless amsgrad).
FERRITE_KERNEL(adam, const OptimBatch& batch, const AdamArgs& args);

struct RmspropArgs {
  double alpha, eps, weight_decay, momentum;
  bool centered, maximize;
};
/// state: mean square, momentum buffer (null where there is no momentum), mean (null unless
/// centered).
FERRITE_KERNEL(rmsprop, const OptimBatch& batch, const RmspropArgs& args);

/// SGD of gradients that are scaled, a factor a parameter w:
/// trust_coefficient |w| / (|g| + weight_decay |w| + eps), and 1 where |w| or |g| is 0. Norms are
/// Euclidean, summed in float64, always in the same order.
struct LarsArgs {
  double momentum, dampening, weight_decay, trust_coefficient, eps;
  bool trust_clip;  ///< LARC: a factor of at most lr is taken in the place of lr
  bool nesterov, maximize;
};
/// state: momentum buffer (null where there is no momentum).
FERRITE_KERNEL(lars, const OptimBatch& batch, const LarsArgs& args);

/// w -= lr * ratio * u with Adam's u = m / (sqrt(v) + eps) + weight_decay w and the ratio
/// |w| / |u|, or 1 where one of them is 0, between the bounds.
struct LambArgs {
  double beta1, beta2, eps, weight_decay, min_trust_ratio, max_trust_ratio;
  bool bias_correction, maximize;
};
/// state: first moment, second moment.
FERRITE_KERNEL(lamb, const OptimBatch& batch, const LambArgs& args);

// ---- Averages of weights

/// How much a new value weighs in an average of those before.
struct AverageArgs {
  /// Of an exponential average; negative: all values weigh the same.
  double decay = -1;
  /// The decay of the n-th update is at most 1 - (1 + n / warmup_gamma)^-warmup_power.
  bool warmup = false;
  double warmup_gamma = 1, warmup_power = 2.0 / 3;
};
/// weight (float64, one element) = that of the next value; `count`, of those so far, counts it. The
/// first one weighs 1.
FERRITE_KERNEL(average_weight, std::int64_t* count, const View& weight, const AverageArgs& args);
/// average += weight * (value - average), array by array; a copy where the weight is 1. The dtypes
/// are equal, or one is float32 and the other has 16 bits.
FERRITE_KERNEL(average_all, const FlatTensors& averages, const FlatTensors& values,
               const View& weight);

// ---- Loss scales

/// A loss scale and what it changes by, a number each.
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
/// Where one of the flags `found_inf` is not 0, scale *= backoff_factor, but not below min_scale,
/// and the tracker starts anew; else the tracker counts and, with every growth_interval-th time,
/// scale *= growth_factor, but not above max_scale, unless that is infinite. The flags are 0
/// afterwards, ready for the next step.
FERRITE_KERNEL(update_scale, const LossScale& scale, const std::vector<float*>& found_inf,
               const UpdateScaleArgs& args);

}  // namespace ferrite::kernels
