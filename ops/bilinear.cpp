#include "ferrite/core/profiler/range.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/renamed.h"

namespace ferrite {

Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  if (const auto cast = ops::autocast(CastPolicy::promote, x1, x2, weight, bias)) {
    const auto& [first, second, w, b] = *cast;
    return bilinear(first, second, w, b);
  }
  const AutocastGuard as_given({.enabled = false});  // the products, too
  const profiler::OpRange range("bilinear", x1, x2, weight, bias);
  constexpr const char* op = "bilinear";
  for (const Tensor* t : {&x1, &x2, &weight, &bias}) {
    if (t == &bias && !bias.defined()) continue;
    FERRITE_CHECK(t->defined(), ValueError, op, "an input or the weight is undefined");
    FERRITE_CHECK(is_floating(t->dtype()), DTypeError, op, "works on floating types, got {}",
                  t->describe());
    FERRITE_CHECK(t->dtype() == x1.dtype(), DTypeError, op,
                  "inputs, weight and bias must agree in dtype, got {} and {}", x1.describe(),
                  t->describe());
    FERRITE_CHECK(t->device() == x1.device(), DeviceError, op,
                  "inputs, weight and bias are on different devices: {} and {}; move one with "
                  "to(device)",
                  x1.describe(), t->describe());
  }
  FERRITE_CHECK(weight.dim() == 3, ShapeError, op, "expected a weight [O, I, J], got {}",
                weight.describe());
  const std::int64_t out = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
  bool fits = x1.dim() > 0 && x1.dim() == x2.dim() && x1.size(-1) == in1 && x2.size(-1) == in2;
  for (int d = 0; fits && d + 1 < x1.dim(); ++d) fits = x1.size(d) == x2.size(d);
  FERRITE_CHECK(fits, ShapeError, op, "expected inputs [*, {}] and [*, {}], got {} and {}", in1,
                in2, x1.describe(), x2.describe());
  FERRITE_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == out), ShapeError, op,
                "expected a bias [{}], got {}", out, bias.describe());
  return ops::renamed(op, [&] {
    Shape shape = x1.shape();
    shape[x1.dim() - 1] = out;
    const std::int64_t rows = in1 > 0 ? x1.numel() / in1 : 0;
    // [rows, I] [I, O * J], then the product with x2 for each O.
    const Tensor w = weight.transpose(0, 1).reshape({in1, out * in2});
    const Tensor half = matmul(x1.reshape({rows, in1}), w).reshape({rows, out, in2});
    const Tensor sums = matmul(half, x2.reshape({rows, in2, 1})).reshape(shape);
    return bias.defined() ? sums + bias : sums;
  });
}

}  // namespace ferrite
