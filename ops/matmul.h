// Matrix products. Operands must have the same dtype (DTypeError; uint8 and bool are not supported)
// and device (DeviceError); sizes that do not match are a ShapeError.
#pragma once

#include "ferrite/core/tensor.h"
#include "ferrite/ops/activation.h"

namespace ferrite {

/// torch.matmul: 1-D times 1-D is the dot product; a 1-D operand is treated as a row on the left
/// and as a column on the right; leading dimensions are a batch and broadcast.
///
///   Tensor c = matmul(randn({8, 2, 3}), randn({3, 4}));  // [8, 2, 4]
Tensor matmul(const Tensor& a, const Tensor& b);
/// [m, k] times [k, n].
Tensor mm(const Tensor& a, const Tensor& b);
/// [b, m, k] times [b, k, n].
Tensor bmm(const Tensor& a, const Tensor& b);
/// [m, k] times [k].
Tensor mv(const Tensor& a, const Tensor& b);
/// [k] times [k], 0-dimensional.
Tensor dot(const Tensor& a, const Tensor& b);
/// [m] times [n] is [m, n].
Tensor outer(const Tensor& a, const Tensor& b);
/// beta * input + alpha * (a b) with a [m, k], b [k, n] and an input that broadcasts to [m, n].
/// With beta = 0 the input's values are ignored.
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
             Scalar alpha = 1);
/// relu(addmm(input, a, b)), with the activation fused into the product.
Tensor addmm_relu(const Tensor& input, const Tensor& a, const Tensor& b);
/// input weight^T + bias: input [..., in], weight [out, in], bias [out] or undefined.
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {});
/// x1^T weight[k] x2 + bias[k] for each k: x1 [*, I], x2 [*, J], weight [O, I, J] and bias [O] or
/// undefined give [*, O].
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias = {});
/// relu(linear(...)), with the activation fused into the product.
Tensor linear_relu(const Tensor& input, const Tensor& weight, const Tensor& bias = {});
/// gelu(linear(...)), fused likewise, exact or in the tanh approximation.
Tensor linear_gelu(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                   GeluApproximation approximation = GeluApproximation::none);

}  // namespace ferrite
