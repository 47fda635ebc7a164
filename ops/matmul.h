// Matrix products. Operands share a dtype (DTypeError otherwise; uint8 and bool have no products)
// and a device (DeviceError); sizes that do not fit are a ShapeError.
#pragma once

#include "ferrite/core/tensor.h"
#include "ferrite/ops/activation.h"

namespace ferrite {

/// torch.matmul: 1-D times 1-D is the dot product; a 1-D operand counts as a row on the left and
/// as a column on the right; leading dimensions are a batch and broadcast.
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
/// beta * input + alpha * (a b) with a [m, k], b [k, n] and an input that broadcasts to [m, n]. A
/// beta of 0 ignores the input's values.
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
             Scalar alpha = 1);
/// relu(addmm(input, a, b)), the activation applied to the product on its way to memory.
Tensor addmm_relu(const Tensor& input, const Tensor& a, const Tensor& b);
/// input weight^T + bias: input [..., in], weight [out, in], bias [out] or undefined.
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {});
/// relu(linear(...)) and gelu(linear(...)) in the same way.
Tensor linear_relu(const Tensor& input, const Tensor& weight, const Tensor& bias = {});
Tensor linear_gelu(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                   GeluApproximation approximation = GeluApproximation::none);

}  // namespace ferrite
