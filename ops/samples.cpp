#include "ferrite/ops/samples.h"

#include <algorithm>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using ops::composite;

namespace {

using T = const Tensor&;

/// Sums and differences of bool are no numbers.
void check_numbers(T x, const char* op) {
  FERRITE_CHECK(x.dtype() != kBool, DTypeError, op, "expected numbers, got {}; convert with to()",
                x.describe());
}

/// The variables as rows.
Tensor variables(T x, const char* op) {
  FERRITE_CHECK(x.dim() <= 2, ShapeError, op,
                "expected [n, observations] or [observations], got {}", x.shape());
  check_numbers(x, op);
  const Tensor rows = x.dim() < 2 ? x.reshape({1, -1}) : x;
  return is_floating(x.dtype()) || x.is_complex() ? rows : rows.to(get_default_dtype());
}

void check_weights(T weights, std::int64_t observations, bool fits, const char* name,
                   const char* kind) {
  constexpr const char* kOp = "cov";
  FERRITE_CHECK(weights.shape() == Shape{observations}, ShapeError, kOp,
                "expected {} [{}], one for each observation, got {}", name, observations,
                weights.shape());
  FERRITE_CHECK(fits, DTypeError, kOp, "expected {} {}, got {}", kind, name, weights.dtype());
  FERRITE_CHECK(!no_grad([&] { return any(lt(weights, 0)).item<bool>(); }), ValueError, kOp,
                "expected {} of 0 or more, got negative ones", name);
}

/// The weight of each observation; undefined if there are no weights.
Tensor observation_weights(T rows, T fweights, T aweights) {
  const std::int64_t n = rows.size(1);
  if (fweights.defined())
    check_weights(fweights, n, !is_floating(fweights.dtype()) && fweights.dtype() != kBool,
                  "fweights", "integral");
  if (aweights.defined())
    check_weights(aweights, n, is_floating(aweights.dtype()), "aweights", "floating");
  if (!fweights.defined()) return aweights;
  return aweights.defined() ? fweights * aweights : fweights;
}

Tensor covariances(T x, int correction, T fweights, T aweights) {
  const Tensor in = variables(x, "cov");
  const Tensor w = observation_weights(in, fweights, aweights);
  const auto observations = static_cast<double>(in.size(1));
  if (!w.defined()) {
    const Tensor centred = in - mean(in, {1}, true);
    return matmul(centred, conj(centred).t()) / std::max(0.0, observations - correction);
  }
  const Tensor total = sum(w);
  FERRITE_CHECK(no_grad([&] { return total.item<double>() != 0; }), ValueError, "cov",
                "expected weights of which one is above 0");
  const Tensor centred = in - sum(in * w, {1}, true) / total;
  const Tensor lost = aweights.defined() && correction != 0 ? sum(w * aweights) / total * correction
                                                            : total.new_full({}, correction);
  return matmul(centred, conj(centred * w).t()) / clamp_min(total - lost, 0);
}

/// The distances of samples along dimension `d` of y, which broadcast to the pairs of neighbours.
Tensor distances(T y, T x, int d, const char* op) {
  Tensor places = x;
  if (x.dim() == 1) {
    Shape shape;
    for (int i = 0; i < y.dim(); ++i) shape.push_back(i == d ? x.size(0) : 1);
    places = x.reshape(shape);
  }
  const int at = d - y.dim() + places.dim();
  check_numbers(x, op);
  FERRITE_CHECK(places.dim() <= y.dim() && at >= 0 && places.size(at) == y.size(d), ShapeError, op,
                "expected as many places as samples along dimension {} of {}, got {}", d, y.shape(),
                x.shape());
  return diff(places, 1, at);
}

/// The sums of neighbours along a dimension.
Tensor neighbours(T y, int d) {
  const std::int64_t n = std::max<std::int64_t>(0, y.size(d) - 1);
  return y.slice(d, 0, n) + y.slice(d, 1);
}

int checked_dim(T y, int dim, const char* op) {
  FERRITE_CHECK(y.dim() > 0, ShapeError, op, "expected samples along a dimension, got {}",
                y.describe());
  check_numbers(y, op);
  return normalize_dim(dim, y.dim(), op);
}

}  // namespace

Tensor cov(T x, int correction, T fweights, T aweights) {
  return composite(
      "cov",
      [&] {
        const Tensor c = covariances(x, correction, fweights, aweights);
        return c.numel() == 1 ? c.reshape({}) : c;
      },
      x);
}

Tensor corrcoef(T x) {
  return composite(
      "corrcoef",
      [&] {
        const Tensor c = cov(x);
        if (c.dim() == 0) return c / c;
        const Tensor deviation = sqrt(real(diag(c)));
        const Tensor r = c / deviation.unsqueeze(1) / deviation.unsqueeze(0);
        if (!r.is_complex()) return clamp(r, -1, 1);
        return complex(clamp(real(r), -1, 1), clamp(imag(r), -1, 1));
      },
      x);
}

Tensor vdot(T a, T b) {
  return composite(
      "vdot",
      [&] {
        if (!a.is_complex()) return dot(a, b);
        FERRITE_CHECK(a.dim() == 1 && a.shape() == b.shape(), ShapeError, "vdot",
                      "expected vectors of one size, got {} and {}", a.shape(), b.shape());
        FERRITE_CHECK(a.dtype() == b.dtype(), DTypeError, "vdot",
                      "expected one dtype, got {} and {}", a.dtype(), b.dtype());
        return sum(conj(a) * b);
      },
      a, b);
}

Tensor msort(T x) {
  return composite(
      "msort", [&] { return x.dim() == 0 ? x.clone() : sort(x, 0).values; }, x);
}

Tensor trapezoid(T y, double dx, int dim) {
  return composite(
      "trapezoid",
      [&] {
        const int d = checked_dim(y, dim, "trapezoid");
        return sum(neighbours(y, d), {d}) * (dx / 2);
      },
      y);
}
Tensor trapezoid(T y, T x, int dim) {
  return composite(
      "trapezoid",
      [&] {
        const int d = checked_dim(y, dim, "trapezoid");
        return sum(neighbours(y, d) * distances(y, x, d, "trapezoid"), {d}) / 2;
      },
      y, x);
}
Tensor cumulative_trapezoid(T y, double dx, int dim) {
  return composite(
      "cumulative_trapezoid",
      [&] {
        const int d = checked_dim(y, dim, "cumulative_trapezoid");
        return cumsum(neighbours(y, d), d) * (dx / 2);
      },
      y);
}
Tensor cumulative_trapezoid(T y, T x, int dim) {
  return composite(
      "cumulative_trapezoid",
      [&] {
        const int d = checked_dim(y, dim, "cumulative_trapezoid");
        return cumsum(neighbours(y, d) * distances(y, x, d, "cumulative_trapezoid"), d) / 2;
      },
      y, x);
}

}  // namespace ferrite
