// Gradients of norms made of differentiable ops, for create_graph; otherwise kernels compute them.
#pragma once

#include "ferrite/autograd/record.h"
#include "ferrite/core/tensor.h"

namespace ferrite::ops {

/// What batch_norm had. Undefined tensors are parameters that it did not have.
struct BatchNormInputs {
  Tensor x, weight, bias;
  Tensor mean, invstd;  ///< given ones; undefined if they are those of x
  double eps;
  bool relu;
  Tensor out;  ///< with a ReLU behind a residual
};

/// Which gradients are needed.
struct BatchNormNeeds {
  bool input, weight, bias, residual = false;
};
/// The gradients of input, weight, bias and residual.
autograd::Gradients batch_norm_gradient(const BatchNormInputs& norm, const Tensor& grad,
                                        const BatchNormNeeds& needs);

/// The gradients of input, weight and bias of layer_norm over the last `dims` dimensions, or of
/// rms_norm, which is not centered.
autograd::Gradients layer_norm_gradient(const Tensor& x, const Tensor& weight, int dims, double eps,
                                        bool centered, const Tensor& grad, autograd::Needs needs);

/// Those of group_norm.
autograd::Gradients group_norm_gradient(const Tensor& x, const Tensor& weight, std::int64_t groups,
                                        double eps, const Tensor& grad, autograd::Needs needs);

}  // namespace ferrite::ops
