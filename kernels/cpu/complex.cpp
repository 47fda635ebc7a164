#include "ferrite/kernels/complex.h"

#include "ferrite/kernels/complex_arithmetic.h"
#include "ferrite/kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

namespace {

template <class Out, class In, class F>
void each(const View& out, const View& a, const View& b, F f) {
  Out* o = out.as<Out>();
  const In* x = a.as<In>();
  const In* y = b.as<In>();
  for_each_run<3>({&out, &a, &b}, [=](const auto& at, const auto& step, std::int64_t n) {
    Out* po = o + at[0];
    const In* px = x + at[1];
    const In* py = y + at[2];
    if (step[0] == 1 && step[1] == 1 && step[2] == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) po[i] = f(px[i], py[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) po[i * step[0]] = f(px[i * step[1]], py[i * step[2]]);
    }
  });
}

template <class T>
void run(BinaryOp op, const View& out, const View& a, const View& b) {
  using P = Parts<T>;
  switch (op) {
    case BinaryOp::mul:
      return each<P, P>(out, a, b, product<T>);
    case BinaryOp::div:
      return each<P, P>(out, a, b, quotient<T>);
    case BinaryOp::eq:
      return each<bool, P>(out, a, b, are_equal<T>);
    default:
      return each<bool, P>(out, a, b, [](P x, P y) { return !are_equal(x, y); });
  }
}

}  // namespace

void complex_binary(BinaryOp op, const View& out, const View& a, const View& b) {
  if (out.numel == 0) return;
  a.dtype == kComplex64 ? run<float>(op, out, a, b) : run<double>(op, out, a, b);
}

}  // namespace ferrite::kernels::cpu

namespace ferrite::kernels {

View as_real(const View& v) {
  FERRITE_CHECK(v.ndim < kMaxDims, ShapeError, "complex",
                "complex tensors have at most {} dimensions, got {}", kMaxDims - 1,
                Shape(std::span(v.sizes, static_cast<std::size_t>(v.ndim))));
  View parts = v;
  parts.dtype = real_type(v.dtype);
  parts.numel *= 2;
  for (int d = 0; d < v.ndim; ++d) parts.strides[d] *= 2;
  parts.sizes[v.ndim] = 2;
  parts.strides[v.ndim] = 1;
  ++parts.ndim;
  return parts;
}

View complex_part(const View& v, int part) {
  View one = v;
  one.dtype = real_type(v.dtype);
  if (one.data) one.data = one.as<char>() + static_cast<std::size_t>(part) * itemsize(one.dtype);
  for (int d = 0; d < v.ndim; ++d) one.strides[d] *= 2;
  return one;
}

void complex_binary(const Stream& stream, BinaryOp op, const View& out, const View& a,
                    const View& b) {
  const bool known =
      op == BinaryOp::mul || op == BinaryOp::div || op == BinaryOp::eq || op == BinaryOp::ne;
  if (!known || !is_complex(a.dtype) || a.dtype != b.dtype)
    ferrite::detail::fail_type("binary", a.dtype);
  launch_any<cpu::complex_binary, cuda::complex_binary>(stream, "complex_binary", op, out, a, b);
}

}  // namespace ferrite::kernels
