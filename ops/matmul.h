// Matrix products. Operands must have the same dtype (DTypeError; uint8 and bool are not supported)
// and device (DeviceError); sizes that do not match are a ShapeError.
#pragma once

#include "ferrite/core/tensor.h"
#include "ferrite/ops/activation.h"

namespace ferrite {

/// The product of two tensors, as torch.matmul: 1-D times 1-D is the dot product; a 1-D operand is
/// treated as a row on the left and as a column on the right; leading dimensions are a batch and
/// broadcast. ShapeError for a 0-dimensional operand and where sizes do not fit, DTypeError for two
/// dtypes, uint8 and bool, DeviceError for two devices.
///
///   Tensor c = matmul(randn({8, 2, 3}), randn({3, 4}));  // [8, 2, 4]
Tensor matmul(const Tensor& a, const Tensor& b);
/// [m, k] times [k, n]: [m, n]. ShapeError for other dimensions; other errors as for matmul().
Tensor mm(const Tensor& a, const Tensor& b);
/// [b, m, k] times [b, k, n]: [b, m, n]. The batch does not broadcast (ShapeError); other errors as
/// for matmul().
Tensor bmm(const Tensor& a, const Tensor& b);
/// [m, k] times [k]: [m]. ShapeError for other dimensions; other errors as for matmul().
Tensor mv(const Tensor& a, const Tensor& b);
/// [k] times [k]: the sum of products, 0-dimensional. ShapeError for other dimensions; other errors
/// as for matmul().
Tensor dot(const Tensor& a, const Tensor& b);
/// [m] times [n]: all products, [m, n]. ShapeError for other dimensions.
Tensor outer(const Tensor& a, const Tensor& b);
/// beta * input + alpha * (a b): [m, n] for a [m, k], b [k, n] and an input that broadcasts to
/// [m, n] (ShapeError). With beta = 0 the input's values are ignored. Other errors as for matmul().
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
             Scalar alpha = 1);
/// relu(addmm(input, a, b)), with the activation fused into the product.
Tensor addmm_relu(const Tensor& input, const Tensor& a, const Tensor& b);
/// input weight^T + bias: [..., out] for input [..., in], weight [out, in] and bias [out] or
/// undefined. ShapeError where sizes do not fit; DTypeError and DeviceError unless all operands
/// agree.
///
///   Tensor y = linear(randn({32, 784}), randn({10, 784}));  // [32, 10]
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
