#include "ferrite/kernels/combine.h"

#include "ferrite/kernels/cpu/combine.h"
#include "ferrite/kernels/cuda/combine.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

namespace {

bool is_half(DType dtype) { return dtype == kFloat16 || dtype == kBFloat16; }

void check(const View& out, const View& a, const View& b, double scale) {
  FERRITE_CHECK(out.numel == b.numel && a.numel == b.numel, ShapeError, "combine",
                "expected arrays of one length, got {}, {} and {}", out.numel, a.numel, b.numel);
  const bool same = out.dtype == b.dtype && a.dtype == b.dtype;
  const auto fits = [&](DType dtype) { return dtype == b.dtype || dtype == kFloat32; };
  FERRITE_CHECK(same || (is_half(b.dtype) && fits(out.dtype) && fits(a.dtype)), DTypeError,
                "combine",
                "expected one dtype, or float32 beside a 16-bit one, got {} from {} and {}",
                out.dtype, a.dtype, b.dtype);
  FERRITE_CHECK(scale == 1 || is_floating(b.dtype), DTypeError, "combine",
                "expected a floating type to scale, got {}", b.dtype);
}

}  // namespace

void combine(const Stream& stream, Combine op, const View& out, const View& a, const View& b,
             double scale) {
  check(out, a, b, scale);
  if (out.numel == 0) return;
  launch(
      stream, "combine", [=] { cpu::combine(op, out, a, b, scale); },
      [&] { cuda::combine(stream, op, out, a, b, scale); });
}

}  // namespace ferrite::kernels
