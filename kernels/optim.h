// Optimizer steps: all parameters of a group in one launch.
//
// What changes from step to step (learning rate, step counts, loss scale) is read on the device
// when the kernel runs, so that a recorded launch can be replayed. 16-bit types compute in float.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "ferrite/kernels/kernel.h"

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

// ---- Many arrays in one pass

/// Dense arrays of one dtype.
struct FlatTensors {
  struct Array {
    void* data;
    std::int64_t numel;
  };
  std::vector<Array> arrays;
  DType dtype = kFloat32;
};

/// x = 0, of any dtype.
FERRITE_KERNEL(zero_all, const FlatTensors& tensors);
/// x *= scale (float64, one element).
FERRITE_KERNEL(scale_all, const FlatTensors& tensors, const View& scale);
/// x = min(max(x, -limit), limit); NaN stays.
FERRITE_KERNEL(clamp_all, const FlatTensors& tensors, double limit);
/// to = from * inv_scale, array by array; `found_inf` becomes 1 where an element of `from` is
/// infinite or NaN, and stays what it was else. Both are single numbers; null: a factor of 1, no
/// check. The dtypes are equal, or one is float32 and the other has 16 bits; arrays may be the
/// same. What a loss scaler does to gradients, and how master weights are made.
FERRITE_KERNEL(unscale_all, const FlatTensors& to, const FlatTensors& from, const float* inv_scale,
               float* found_inf);
/// The check alone: `found_inf` becomes 1 where an element is infinite or NaN, and stays what it
/// was else.
FERRITE_KERNEL(check_finite, const FlatTensors& tensors, float* found_inf);

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

// ---- Norms

/// out (float64, one element) = the sum of |x|^p over all elements, or the largest |x| where p is
/// infinite. Summed in float64, always in the same order.
FERRITE_KERNEL(sum_of_powers, const FlatTensors& tensors, double p, const View& out);
/// each[i] (float64, contiguous, one an array) = (sum |x|^p)^(1/p) of array i, or its largest |x|;
/// `all` (float64, one element, may be absent) = that of all arrays as one.
FERRITE_KERNEL(norms, const FlatTensors& tensors, double p, const View& each, const View& all);
/// What a norm that is not finite is reported as.
inline constexpr const char* kNormOp = "total_norm of the gradients";
/// norm = sums^(1/p) of the added (or largest) `sums`; scale = min(1, max_norm / (norm + 1e-6)).
/// All float64 of one element. With `check` a norm that is not finite has a scale of 1, and is
/// reported: ValueError, from devices when their stream is waited for.
FERRITE_KERNEL(clip_scale, const std::vector<const double*>& sums, double p, double max_norm,
               const View& norm, const View& scale, bool check);

}  // namespace ferrite::kernels
