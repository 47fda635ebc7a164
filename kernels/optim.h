// Optimizer steps: all parameters of a group in one launch.
//
// What changes from step to step (learning rate, step counts, loss scale) is read on the device
// when the kernel runs, so that a recorded launch can be replayed. 16-bit types compute in float.
#pragma once

#include <optional>
#include <vector>

#include "kernels/view.h"

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
};

struct OptimBatch {
  std::vector<OptimTensor> tensors;
  DType dtype = kFloat32;
  std::optional<DType> grad_dtype = {};  ///< float16 or bfloat16 beside float32; unset: dtype
  DType copy_dtype = kFloat16;           ///< float16 or bfloat16
  const double* lr = nullptr;
  const float* inv_scale = nullptr;  ///< factor of the gradients; null: 1
  const float* found_inf = nullptr;  ///< where it is not 0 nothing changes; null: 0
};

struct SgdArgs {
  double momentum, dampening, weight_decay;
  bool nesterov, maximize;
};
/// state: momentum buffer (null where momentum is 0).
void sgd(const Stream& stream, const OptimBatch& batch, const SgdArgs& args);

struct AdamArgs {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  ///< weight decay on the parameter (AdamW), not through the gradient
  bool amsgrad, maximize;
};
/// state: first moment, second moment, its maximum (null unless amsgrad).
void adam(const Stream& stream, const OptimBatch& batch, const AdamArgs& args);

struct RmspropArgs {
  double alpha, eps, weight_decay, momentum;
  bool centered, maximize;
};
/// state: mean square, momentum buffer (null where momentum is 0), mean (null unless centered).
void rmsprop(const Stream& stream, const OptimBatch& batch, const RmspropArgs& args);

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
void zero_all(const Stream& stream, const FlatTensors& tensors);
/// x *= scale (float64, one element).
void scale_all(const Stream& stream, const FlatTensors& tensors, const View& scale);
/// x = min(max(x, -limit), limit); NaN stays.
void clamp_all(const Stream& stream, const FlatTensors& tensors, double limit);
/// to = from * inv_scale, array by array; `found_inf` becomes 1 where an element of `from` is
/// infinite or NaN, and stays what it was else. Both are single numbers; null: a factor of 1, no
/// check. The dtypes are equal, or one is float32 and the other has 16 bits; arrays may be the
/// same. What a loss scaler does to gradients, and how master weights are made.
void unscale_all(const Stream& stream, const FlatTensors& to, const FlatTensors& from,
                 const float* inv_scale, float* found_inf);
/// The check alone: `found_inf` becomes 1 where an element is infinite or NaN, and stays what it
/// was else.
void check_finite(const Stream& stream, const FlatTensors& tensors, float* found_inf);

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
};
/// Where one of the flags `found_inf` is not 0, scale *= backoff_factor and the tracker starts
/// anew; else the tracker counts and, with every growth_interval-th time, scale *= growth_factor
/// unless that is infinite. The flags are 0 afterwards, ready for the next step.
void update_scale(const Stream& stream, const LossScale& scale,
                  const std::vector<float*>& found_inf, const UpdateScaleArgs& args);

// ---- Norms

/// out (float64, one element) = the sum of |x|^p over all elements, or the largest |x| where p is
/// infinite. Summed in float64, always in the same order.
void sum_of_powers(const Stream& stream, const FlatTensors& tensors, double p, const View& out);
/// each[i] (float64, contiguous, one an array) = (sum |x|^p)^(1/p) of array i, or its largest |x|;
/// `all` (float64, one element, may be absent) = that of all arrays as one.
void norms(const Stream& stream, const FlatTensors& tensors, double p, const View& each,
           const View& all);
/// norm = sums^(1/p) of the added (or largest) `sums`; scale = min(1, max_norm / (norm + 1e-6)).
/// All float64 of one element.
void clip_scale(const Stream& stream, const std::vector<const double*>& sums, double p,
                double max_norm, const View& norm, const View& scale);

}  // namespace ferrite::kernels
