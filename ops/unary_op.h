// How a function of one tensor is run and recorded on the tape.
#pragma once

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tensor.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/unary.h"
#include "ferrite/ops/promotion.h"

namespace ferrite::ops {

using autograd::Needs;
using autograd::Saved;
using kernels::UnaryOp;
using kernels::UnaryParams;

/// The tensor from which a gradient is computed.
enum class Keeps : std::uint8_t { nothing, input, output };

/// The dtypes a function accepts: numeric ones unchanged, complex ones as well, or floating ones,
/// with integers converted to float32.
enum class Takes : std::uint8_t { numeric, complex, floating };

inline DType checked_dtype(const Tensor& x, const char* name, Takes takes) {
  FERRITE_CHECK(x.defined(), ValueError, name, "the tensor is undefined");
  if (x.is_complex() && takes != Takes::complex) ferrite::detail::fail_type(name, x.dtype());
  FERRITE_CHECK(takes == Takes::floating || x.dtype() != kBool, DTypeError, name,
                "does not work on bool; convert with to(dtype)");
  return takes == Takes::floating ? floating_type(x.dtype()) : x.dtype();
}

/// `gradient` is (const Tensor& grad, const Tensor& kept) -> Tensor, differentiable.
template <class Gradient>
Tensor unary(const Tensor& x, const char* name, UnaryOp op, Takes takes, Keeps keeps,
             Gradient gradient, const UnaryParams& p = {}) {
  if (tracing::on())
    return tracing::op(name, {x},
                       {{"function", static_cast<std::int64_t>(op)}, {"a", p.a}, {"b", p.b}},
                       [&] { return unary(x, name, op, takes, keeps, gradient, p); });
  const profiler::OpRange range(name, x);
  const DType dtype = checked_dtype(x, name, takes);
  const Tensor in = operand(x, dtype, x.shape(), x.device());
  Tensor out = empty_like(in);
  kernels::unary(current_stream(out.device()), op, out, in, p);
  if (autograd::recording(x))
    autograd::record(out, name, {x},
                     [kept = keeps == Keeps::input    ? Saved(x)
                             : keeps == Keeps::output ? Saved::output(out)
                                                      : Saved(),
                      gradient](const Tensor& grad, Needs) { return gradient(grad, kept.get()); });
  return out;
}

/// In place; `name` ends in _.
template <class Gradient>
const Tensor& unary_(const Tensor& self, const char* name, UnaryOp op, Takes takes, Keeps keeps,
                     Gradient gradient, const UnaryParams& p = {}) {
  if (tracing::on())
    return tracing::op(
        name, {self}, {{"function", static_cast<std::int64_t>(op)}, {"a", p.a}, {"b", p.b}},
        [&]() -> const Tensor& { return unary_(self, name, op, takes, keeps, gradient, p); });
  const profiler::OpRange range(name, self);
  const DType dtype = checked_dtype(self, name, takes);
  FERRITE_CHECK(dtype == self.dtype(), DTypeError, name,
                "the result is {}, which cannot be stored in place in {}", dtype, self.dtype());
  autograd::check_inplace(self, name);
  const bool records = autograd::recording(self);
  Saved kept;
  if (records && keeps == Keeps::input) {
    // The values that the change destroys, with their history.
    kept = Saved(self.clone());
  }
  kernels::unary(current_stream(self.device()), op, self, self, p);
  autograd::changed_inplace(self, name);
  if (!records) return self;
  if (keeps == Keeps::output) kept = Saved::output(self);
  autograd::record_inplace(self, name, {self}, [kept, gradient](const Tensor& grad, Needs) {
    return gradient(grad, kept.get());
  });
  return self;
}

}  // namespace ferrite::ops
