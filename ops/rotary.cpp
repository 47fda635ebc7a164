#include "ferrite/ops/rotary.h"

#include <cmath>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite {

namespace {

constexpr const char* kRotary = "rotary_embedding";

/// [..., L, E / 2]
Tensor angles_of(const Tensor& x, const RotaryEmbeddingOptions& o) {
  const std::int64_t half = x.size(-1) / 2;
  const TensorOptions options{.dtype = kFloat64, .device = x.device()};
  const Tensor steps =
      arange(half, options) * (-2 * std::log(o.base) / static_cast<double>(2 * half));
  const Tensor positions = o.positions.defined()
                               ? o.positions.to(kFloat64)
                               : arange(x.size(-2), options) + static_cast<double>(o.offset);
  return positions.unsqueeze(-1) * exp(steps);
}

}  // namespace

Tensor rotary_embedding(const Tensor& x, const RotaryEmbeddingOptions& o) {
  const profiler::OpRange range(kRotary, x);
  FERRITE_CHECK(x.defined(), ValueError, kRotary, "the input is undefined");
  FERRITE_CHECK(is_floating(x.dtype()), DTypeError, kRotary, "expected a floating type, got {}",
                x.describe());
  FERRITE_CHECK(x.dim() >= 2 && x.size(-1) % 2 == 0, ShapeError, kRotary,
                "expected [..., L, E] with an even E, got {}", x.shape());
  FERRITE_CHECK(o.base > 0, ValueError, kRotary, "base: expected a number above 0, got {}", o.base);
  if (o.positions.defined()) {
    FERRITE_CHECK(o.positions.dtype() == kInt64 || o.positions.dtype() == kInt32, DTypeError,
                  kRotary, "positions: expected int64 or int32, got {}", o.positions.describe());
    FERRITE_CHECK(o.positions.device() == x.device(), DeviceError, kRotary,
                  "positions are on {}, the input on {}", o.positions.device(), x.device());
    Shape rows = x.shape();
    rows.erase(x.dim() - 1);
    FERRITE_CHECK(broadcast_shapes(o.positions.shape(), rows, kRotary) == rows, ShapeError, kRotary,
                  "positions {} do not broadcast to {}", o.positions.shape(), rows);
  }
  const auto [c, s] = no_grad([&] {
    const Tensor angles = angles_of(x, o);
    return std::pair(cos(angles).to(x.dtype()), sin(angles).to(x.dtype()));
  });
  const std::int64_t half = x.size(-1) / 2;
  if (o.interleaved) {
    Shape pairs = x.shape();
    pairs[x.dim() - 1] = half;
    pairs.push_back(2);
    const Tensor each = x.reshape(pairs);
    const Tensor a = each.select(-1, 0), b = each.select(-1, 1);
    return stack({a * c - b * s, a * s + b * c}, -1).reshape(x.shape());
  }
  const Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return cat({a * c - b * s, a * s + b * c}, -1);
}

}  // namespace ferrite
