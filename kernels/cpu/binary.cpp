#include <algorithm>

#include "ferrite/kernels/complex.h"
#include "ferrite/kernels/cpu/binary_loop.h"

namespace ferrite::kernels::cpu {

namespace {

/// A scalar as an operand that every element shares, like `like` in shape. `value` outlives it.
template <class T>
View broadcast(const T& value, const View& like) {
  View v = like;
  v.data = const_cast<T*>(&value);
  v.dtype = dtype_of<T>;
  std::fill_n(v.strides, v.ndim, std::int64_t{0});
  return v;
}

/// Calls body(operand) with `scalar` as an operand beside tensors of `dtype`.
template <class Body>
void with_scalar(Scalar scalar, const View& beside, Body&& body) {
  dispatch_all(beside.dtype, "binary", [&]<class T>() {
    const Compute<T> value = scalar.cast<Compute<T>>();
    body(broadcast(value, beside));
  });
}

}  // namespace

void binary(BinaryOp op, const View& out, const View& a, const View& b) {
  gives_bool(op) ? comparison(op, out, a, b) : arithmetic(op, out, a, b);
}

void binary(BinaryOp op, const View& out, const View& a, Scalar b) {
  with_scalar(b, a, [&](const View& scalar) { binary(op, out, a, scalar); });
}

void binary(BinaryOp op, const View& out, Scalar a, const View& b) {
  with_scalar(a, b, [&](const View& scalar) { binary(op, out, scalar, b); });
}

}  // namespace ferrite::kernels::cpu

namespace ferrite::kernels {

namespace {
/// What treats the two parts of complex numbers alike.
bool is_by_parts(BinaryOp op) { return op == BinaryOp::add || op == BinaryOp::sub; }

/// `a` or `b` times or divided by a real number.
bool is_scaling(BinaryOp op, Scalar b) {
  return (op == BinaryOp::mul || op == BinaryOp::div) && !b.is_complex();
}

constexpr auto kCpuBinary = [](const auto&... args) { cpu::binary(args...); };
constexpr auto kCudaBinary = [](const auto&... args) { cuda::binary(args...); };
}  // namespace

void binary(const Stream& stream, BinaryOp op, const View& out, const View& a, const View& b) {
  if (is_complex(a.dtype)) [[unlikely]]
    return is_by_parts(op) ? binary(stream, op, as_real(out), as_real(a), as_real(b))
                           : complex_binary(stream, op, out, a, b);
  launch<kCpuBinary, kCudaBinary>(stream, "binary", op, out, a, b);
}
void binary(const Stream& stream, BinaryOp op, const View& out, const View& a, Scalar b) {
  if (is_complex(a.dtype) && is_scaling(op, b)) [[unlikely]]
    return binary(stream, op, as_real(out), as_real(a), b);
  launch<kCpuBinary, kCudaBinary>(stream, "binary", op, out, a, b);
}
void binary(const Stream& stream, BinaryOp op, const View& out, Scalar a, const View& b) {
  launch<kCpuBinary, kCudaBinary>(stream, "binary", op, out, a, b);
}
void add_scaled(const Stream& stream, const View& out, const View& a, const View& b, Scalar alpha) {
  if (is_complex(a.dtype)) [[unlikely]]
    return add_scaled(stream, as_real(out), as_real(a), as_real(b), alpha);
  launch<cpu::add_scaled, cuda::add_scaled>(stream, "add", out, a, b, alpha);
}

}  // namespace ferrite::kernels
