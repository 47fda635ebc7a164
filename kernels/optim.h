// Optimizer steps: all parameters of a group in one launch.
//
// What changes from step to step (learning rate, step counts, loss scale) is read on the device
// when the kernel runs, so that a recorded launch can be replayed. 16-bit types compute in float.
#pragma once

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
};

struct OptimBatch {
  std::vector<OptimTensor> tensors;
  DType dtype = kFloat32;
  const double* lr = nullptr;
  const float* inv_scale = nullptr;  ///< factor of the gradients; null: 1
  const float* found_inf = nullptr;  ///< where it is not 0 nothing changes; null: 0
};

struct SgdArgs {
  double momentum, dampening, weight_decay;
  bool nesterov, maximize;
};
/// state: momentum buffer (null where momentum is 0).
void sgd(const Stream& stream, OptimBatch batch, const SgdArgs& args);

struct AdamArgs {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  ///< weight decay on the parameter (AdamW), not through the gradient
  bool amsgrad, maximize;
};
/// state: first moment, second moment, its maximum (null unless amsgrad).
void adam(const Stream& stream, OptimBatch batch, const AdamArgs& args);

struct RmspropArgs {
  double alpha, eps, weight_decay, momentum;
  bool centered, maximize;
};
/// state: mean square, momentum buffer (null where momentum is 0), mean (null unless centered).
void rmsprop(const Stream& stream, OptimBatch batch, const RmspropArgs& args);

// ---- Gradient clipping

/// Dense arrays of one dtype.
struct FlatTensors {
  struct Array {
    void* data;
    std::int64_t numel;
  };
  std::vector<Array> arrays;
  DType dtype = kFloat32;
};

/// out (float64, one element) = the sum of |x|^p over all elements, or the largest |x| where p is
/// infinite. Independent of the number of threads.
void sum_of_powers(const Stream& stream, FlatTensors tensors, double p, const View& out);
/// norm = sums^(1/p) of the added (or largest) `sums`; scale = min(1, max_norm / (norm + 1e-6)).
/// All float64 of one element.
void clip_scale(const Stream& stream, std::vector<const double*> sums, double p, double max_norm,
                const View& norm, const View& scale);
/// x *= scale (float64, one element).
void scale_all(const Stream& stream, FlatTensors tensors, const View& scale);
/// x = min(max(x, -limit), limit); NaN stays.
void clamp_all(const Stream& stream, FlatTensors tensors, double limit);

}  // namespace ferrite::kernels
