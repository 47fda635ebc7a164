#include "ferrite/ops/promotion.h"

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/reduce.h"

namespace ferrite::ops {

namespace {

int category(DType dtype) {
  return is_complex(dtype) ? 3 : is_floating(dtype) ? 2 : is_integral(dtype) ? 1 : 0;
}

/// The result type of tensors with dimensions (`strong`) and of those without (`weak`), which
/// matter only by their category.
DType beside_weak(DType strong, DType weak) {
  if (category(strong) >= category(weak)) return strong;
  return is_complex(weak) && is_floating(strong) ? complex_type(strong) : promote(strong, weak);
}

}  // namespace

DType result_type(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return a.dtype();
  if (a.dim() == 0 && b.dim() > 0) return beside_weak(b.dtype(), a.dtype());
  if (b.dim() == 0 && a.dim() > 0) return beside_weak(a.dtype(), b.dtype());
  return promote(a.dtype(), b.dtype());
}

DType result_type(std::span<const Tensor> tensors) {
  std::optional<DType> with_dims, without;
  for (const Tensor& t : tensors) {
    std::optional<DType>& known = t.dim() > 0 ? with_dims : without;
    known = known ? promote(*known, t.dtype()) : t.dtype();
  }
  if (!with_dims || !without) return with_dims ? *with_dims : without.value();
  return beside_weak(*with_dims, *without);
}

DType result_type(const Tensor& a, Scalar b) {
  switch (b.kind()) {
    case Scalar::Kind::complex:
      return complex_type(floating_type(a.dtype()));
    case Scalar::Kind::floating:
      return floating_type(a.dtype());
    case Scalar::Kind::integer:
      return a.dtype() == kBool ? kInt64 : a.dtype();
    case Scalar::Kind::boolean:
      break;
  }
  return a.dtype();
}

bool can_store(DType result, DType self) { return category(result) <= category(self); }

void check_storable(Scalar value, DType dtype, const char* op) {
  const bool fits = is_complex(dtype)
                        ? dtype == kComplex128 || value.fits<std::complex<float>>()
                        : dispatch_all(dtype, op, [&]<class T>() { return value.fits<T>(); });
  FERRITE_CHECK(fits, ValueError, op,
                "{} is outside the range of {}; choose another value, or convert the tensor with "
                "to(dtype)",
                value.to_string(), dtype);
}

void check_same_device(const Tensor& a, const Tensor& b, const char* op) {
  FERRITE_CHECK(a.defined() && b.defined(), ValueError, op, "an operand is undefined: {} and {}",
                a.describe(), b.describe());
  if (a.device() == b.device()) return;
  const auto is_host_scalar = [](const Tensor& t) { return t.dim() == 0 && t.device().is_host(); };
  FERRITE_CHECK(is_host_scalar(a) || is_host_scalar(b), DeviceError, op,
                "the operands are on different devices: {} and {}; move one with to(device)",
                a.describe(), b.describe());
}

Tensor operand(const Tensor& t, DType dtype, const Shape& shape, const Device& device) {
  Tensor out = t;
  if (t.device() != device && t.dim() == 0 && t.device().is_host()) {
    // Its value is copied with the queued work: nothing waits, and later changes do not matter.
    out = empty({}, {.dtype = dtype, .device = device});
    kernels::fill(current_stream(device), out, t.item_scalar());
  } else if (t.dtype() != dtype || t.device() != device) {
    NoGradGuard guard;
    out = t.to(device, dtype);
  }
  if (out.shape() == shape) return out;
  return geometry::apply(out, geometry::expand(out, shape));
}

Operands operands(const Tensor& a, const Tensor& b, DType dtype, DType out_dtype, const char* op,
                  Rounding rounding) {
  check_same_device(a, b, op);
  if (dtype == out_dtype && need_nothing(a, b, dtype)) return {a, b, empty_like(a)};
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), op);
  const Device& device = a.dim() == 0 && a.device().is_host() ? b.device() : a.device();
  const Tensor& model = a.shape() == shape ? a : b;
  const MemoryFormat format =
      model.shape() == shape ? model.suggest_memory_format() : MemoryFormat::contiguous;
  const auto read_as = [&](const Tensor& t) {
    return rounding == Rounding::late ? factor_type(t, dtype) : dtype;
  };
  return {operand(a, read_as(a), shape, device), operand(b, read_as(b), shape, device),
          empty(shape, {.dtype = out_dtype, .device = device, .memory_format = format})};
}

Together::Together(const Tensor& a, const Tensor& b, const Tensor& c, const char* op)
    : shape(broadcast_shapes(c.shape(), broadcast_shapes(a.shape(), b.shape(), op), op)) {
  const auto on_device = [](const Tensor& t) { return t.dim() > 0 || !t.device().is_host(); };
  device = (on_device(a) ? a : on_device(b) ? b : c).device();
  const Tensor& model = a.shape() == shape ? a : b.shape() == shape ? b : c;
  format = model.shape() == shape ? model.suggest_memory_format() : MemoryFormat::contiguous;
}

Tensor reduce_to(const Tensor& grad, const Shape& shape, DType dtype, const Device& device) {
  return sum_to(grad, shape).to(device, dtype);
}

}  // namespace ferrite::ops
