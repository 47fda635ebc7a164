// Preparation of two operands for arithmetic: PyTorch's type promotion, and broadcasting.
#pragma once

#include <initializer_list>
#include <span>

#include "ferrite/core/tensor.h"
#include "ferrite/kernels/elementwise.h"

namespace ferrite::ops {

/// torch.result_type: tensors with dimensions decide; a 0-dimensional tensor or a scalar only
/// matters if its category (bool, integer, float, complex) is higher.
DType result_type(const Tensor& a, const Tensor& b);
DType result_type(const Tensor& a, Scalar b);
/// The result type of several tensors, which promoting them in pairs would not give: their numbers
/// of dimensions count.
DType result_type(std::span<const Tensor> tensors);
inline DType result_type(std::initializer_list<Tensor> tensors) {
  return result_type(std::span(tensors.begin(), tensors.size()));
}
/// `dtype`, or the default for integers and bool: the type in which true division and exp compute.
inline DType floating_type(DType dtype) {
  return is_differentiable(dtype) ? dtype : get_default_dtype();
}

/// Whether a result may be stored in place in `self`: floats not in integers, numbers not in bool.
bool can_store(DType result, DType self);

/// Throws ValueError unless a tensor of this dtype holds the number (Scalar::fits), as torch.full
/// and its kin do; results of arithmetic wrap around instead.
void check_storable(Scalar value, DType dtype, const char* op);

/// Throws DeviceError naming both unless the tensors share a device; 0-dimensional host tensors are
/// allowed with any device. ValueError for undefined tensors.
void check_same_device(const Tensor& a, const Tensor& b, const char* op);

/// `t` converted (off the tape) to `dtype`, moved to `device` and expanded to `shape`: an operand
/// for a kernel. Copies nothing if nothing changes.
Tensor operand(const Tensor& t, DType dtype, const Shape& shape, const Device& device);

/// The type in which a product or a quotient in `dtype` reads `t`: with 16-bit numbers a
/// 0-dimensional operand of another type is read as float32 without rounding, like a Scalar.
inline DType factor_type(const Tensor& t, DType dtype) {
  const bool wide =
      is_floating(dtype) && itemsize(dtype) == 2 && t.dim() == 0 && t.dtype() != dtype;
  return wide ? kFloat32 : dtype;
}

/// Whether a kernel in `dtype` can use both operands unchanged.
inline bool need_nothing(const Tensor& a, const Tensor& b, DType dtype) {
  return a.shape() == b.shape() && a.dtype() == dtype && b.dtype() == dtype &&
         a.device() == b.device();
}

/// The inputs and output of a kernel with two operands.
struct Operands {
  Tensor a, b, out;
};
/// Both operands in `dtype`, broadcast, and an empty result of `out_dtype` with the layout of the
/// operand that was not broadcast. Checks devices and shapes. With `Rounding::late` the operands of
/// a product or a quotient have their factor_type().
enum class Rounding : std::uint8_t { early, late };
inline Rounding rounding_of(kernels::BinaryOp op) {
  const bool factors = op == kernels::BinaryOp::mul || op == kernels::BinaryOp::div;
  return factors ? Rounding::late : Rounding::early;
}
Operands operands(const Tensor& a, const Tensor& b, DType dtype, DType out_dtype, const char* op,
                  Rounding rounding = Rounding::early);

/// The shape of three operands together, the device of those that are not numbers on the host, and
/// the layout of the first one that is not broadcast.
struct Together {
  Together(const Tensor& a, const Tensor& b, const Tensor& c, const char* op);
  Shape shape;
  Device device;
  MemoryFormat format;
};

/// `grad` summed to the shape of an operand that was broadcast, in that operand's dtype and on its
/// device. Differentiable.
Tensor reduce_to(const Tensor& grad, const Shape& shape, DType dtype, const Device& device);

/// The properties of an operand that a backward needs but does not save.
struct Like {
  Like(const Tensor& t) : shape(t.shape()), dtype(t.dtype()), device(t.device()) {}
  Tensor reduce(const Tensor& grad) const {
    if (grad.shape() == shape && grad.dtype() == dtype && grad.device() == device) return grad;
    return reduce_to(grad, shape, dtype, device);
  }
  Shape shape;
  DType dtype;
  Device device;
};

}  // namespace ferrite::ops
