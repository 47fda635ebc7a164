// Optimizer steps: all parameters of a group in one launch.
//
// Values that change from step to step (learning rate, step counts, loss scale) are read on the
// device when the kernel runs, so that a captured launch can be replayed. 16-bit types are computed
// in float32.
#pragma once

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
  std::int64_t* step = nullptr;  ///< updates so far; the kernel increments it
  void* scalar = nullptr;        ///< one number of the batch's dtype; null where unused
  /// For a float32 `param`: its 16-bit copy, written in the same pass (the model's weights, of
  /// which `param` is the master copy). Null: none.
  void* copy = nullptr;
  /// Not of LARS and LAMB: whether `grad` has the batch's dtype, though grad_dtype is another.
  bool wide_grad = false;
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

}  // namespace ferrite::kernels
