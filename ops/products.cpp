#include "ferrite/ops/products.h"

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"

namespace ferrite {

using ops::composite;

namespace {

using T = const Tensor&;

/// beta * input + alpha * product.
Tensor added(T input, T product, Scalar beta, Scalar alpha, const char* op) {
  FERRITE_CHECK(input.dtype() == product.dtype(), DTypeError, op,
                "the input is {}, the product {}; convert one with to(dtype)", input.dtype(),
                product.dtype());
  ops::check_same_device(input, product, op);
  FERRITE_CHECK(broadcast_shapes(input.shape(), product.shape(), op) == product.shape(), ShapeError,
                op, "an input of {} does not broadcast to {}", input.shape(), product.shape());
  const Tensor scaled = alpha.to<double>() == 1 ? product : product * alpha;
  if (beta.to<double>() == 0) return scaled;
  return add(scaled, input, beta);
}

}  // namespace

Tensor inner(T a, T b) {
  if (const auto cast = ops::autocast(AutocastOp::matmul, a, b)) {
    const auto& [x, y] = *cast;
    return inner(x, y);
  }
  return composite(
      "inner",
      [&] {
        if (a.dim() == 0 || b.dim() == 0) return a * b;
        return tensordot(a, b, {a.dim() - 1}, {b.dim() - 1});
      },
      a, b);
}

Tensor kron(T a, T b) {
  return composite(
      "kron",
      [&] {
        // a[i, 1, j, 1] b[1, k, 1, l] has the elements in order.
        const int n = std::max(a.dim(), b.dim());
        Shape left, right, shape;
        for (int d = 0; d < n; ++d) {
          const int i = d - (n - a.dim()), j = d - (n - b.dim());
          const std::int64_t p = i < 0 ? 1 : a.shape()[i], q = j < 0 ? 1 : b.shape()[j];
          left.push_back(p), left.push_back(1);
          right.push_back(1), right.push_back(q);
          shape.push_back(p * q);
        }
        return (a.reshape(left) * b.reshape(right)).reshape(shape);
      },
      a, b);
}

// ---- Sums with a product

Tensor baddbmm(T input, T a, T b, Scalar beta, Scalar alpha) {
  if (const auto cast = ops::autocast(AutocastOp::addmm, input, a, b)) {
    const auto& [start, x, y] = *cast;
    return baddbmm(start, x, y, beta, alpha);
  }
  return composite(
      "baddbmm", [&] { return added(input, bmm(a, b), beta, alpha, "baddbmm"); }, input, a, b);
}

Tensor addbmm(T input, T a, T b, Scalar beta, Scalar alpha) {
  if (const auto cast = ops::autocast(AutocastOp::addmm, input, a, b)) {
    const auto& [start, x, y] = *cast;
    return addbmm(start, x, y, beta, alpha);
  }
  return composite(
      "addbmm",
      [&] {
        FERRITE_CHECK(
            a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1),
            ShapeError, "addbmm", "expected [b, m, k] and [b, k, n], got {} and {}", a.shape(),
            b.shape());
        const std::int64_t k = a.size(0) * a.size(2);
        const Tensor rows = a.transpose(0, 1).reshape({a.size(1), k});
        return added(input, mm(rows, b.reshape({k, b.size(2)})), beta, alpha, "addbmm");
      },
      input, a, b);
}

Tensor addmv(T input, T a, T b, Scalar beta, Scalar alpha) {
  if (const auto cast = ops::autocast(AutocastOp::addmm, input, a, b)) {
    const auto& [start, x, y] = *cast;
    return addmv(start, x, y, beta, alpha);
  }
  return composite(
      "addmv", [&] { return added(input, mv(a, b), beta, alpha, "addmv"); }, input, a, b);
}

Tensor addr(T input, T a, T b, Scalar beta, Scalar alpha) {
  return composite(
      "addr",
      [&] {
        FERRITE_CHECK(a.dtype() != kBool, DTypeError, "addr",
                      "does not work on bool; convert with to(dtype)");
        return added(input, outer(a, b), beta, alpha, "addr");
      },
      input, a, b);
}

// ---- cross

Tensor cross(T a, T b, std::optional<int> dim) {
  return composite(
      "cross",
      [&] {
        const Shape shape = broadcast_shapes(a.shape(), b.shape(), "cross");
        int d = 0;
        if (dim)
          d = normalize_dim(*dim, shape.size(), "cross");
        else
          while (d < shape.size() && shape[d] != 3) ++d;
        FERRITE_CHECK(d < shape.size() && shape[d] == 3, ShapeError, "cross",
                      "expected a dimension of size 3, got {} and {}", a.shape(), b.shape());
        const Tensor x = a.expand(shape), y = b.expand(shape);
        const auto next = [d](T t, int by) { return roll(t, {-by}, {d}); };
        return next(x, 1) * next(y, 2) - next(x, 2) * next(y, 1);
      },
      a, b);
}

// ---- Distances

Tensor pairwise_distance(T a, T b, double p, double eps, bool keepdim) {
  if (const auto cast = ops::autocast(CastPolicy::float32, a, b)) {
    const auto& [x, y] = *cast;
    return pairwise_distance(x, y, p, eps, keepdim);
  }
  return composite(
      "pairwise_distance",
      [&] {
        ops::check_floating("pairwise_distance", a, b);
        return norm(a - b + eps, p, -1, keepdim);
      },
      a, b);
}

Tensor pdist(T x, double p) {
  if (const auto cast = ops::autocast(CastPolicy::float32, x)) return pdist(*cast, p);
  return composite(
      "pdist",
      [&] {
        ops::check_floating("pdist", x);
        FERRITE_CHECK(x.dim() == 2, ShapeError, "pdist", "expected rows [n, m], got {}",
                      x.describe());
        // Pairs are in the order of their first row, of which there are n - 1, n - 2, ...; counted
        // on the device, so that nothing waits.
        const std::int64_t n = x.size(0);
        const TensorOptions integers{.dtype = kInt64, .device = x.device()};
        const Tensor pairs = arange(n * (n - 1) / 2, integers);
        // Rows of no numbers are equal, in every norm.
        const double order = x.size(1) == 0 ? 2 : p;
        if (pairs.numel() == 0) return norm(index_select(x, 0, pairs), order, 1);
        const Tensor counts = (n - 1) - arange(n, integers), ends = cumsum(counts, 0);
        const Tensor row = searchsorted(ends, pairs, {.right = true});
        const Tensor other = pairs - index_select(ends - counts, 0, row) + row + 1;
        return norm(index_select(x, 0, row) - index_select(x, 0, other), order, 1);
      },
      x);
}

Tensor cosine_similarity(T a, T b, int dim, double eps) {
  if (const auto cast = ops::autocast(CastPolicy::float32, a, b)) {
    const auto& [x, y] = *cast;
    return cosine_similarity(x, y, dim, eps);
  }
  return composite(
      "cosine_similarity",
      [&] {
        ops::check_floating("cosine_similarity", a, b);
        const Shape shape = broadcast_shapes(a.shape(), b.shape(), "cosine_similarity");
        const int d = normalize_dim(dim, shape.size(), "cosine_similarity");
        const Tensor x = a.expand(shape), y = b.expand(shape);
        const auto length = [&](T t) { return clamp_min(norm(t, 2, d, true), eps); };
        return sum(x / length(x) * (y / length(y)), d);
      },
      a, b);
}

Tensor normalize(T x, double p, int dim, double eps) {
  if (const auto cast = ops::autocast(CastPolicy::float32, x)) return normalize(*cast, p, dim, eps);
  return composite(
      "normalize",
      [&] {
        FERRITE_CHECK(is_floating(x.dtype()), DTypeError, "normalize",
                      "expected a floating type, got {}", x.dtype());
        return x / clamp_min(norm(x, p, dim, true), eps);
      },
      x);
}

}  // namespace ferrite
