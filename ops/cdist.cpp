// Distances between all rows of two matrices.
#include <algorithm>

#include "ferrite/autograd/engine.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/products.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/reduced_dims.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::Saved;
using ops::composite;

namespace {

using T = const Tensor&;

/// Elements of differences that are in memory at a time.
constexpr std::int64_t kDifferences = std::int64_t{1} << 21;
/// PyTorch's bound, above which distances come from a product.
constexpr std::int64_t kProductRows = 25;

/// [batch, m, n, k]
Tensor differences(T a, T b) { return a.unsqueeze(2) - b.unsqueeze(1); }

/// f(part of the batch of a, that of b, first row, first of the batch) of parts that have few
/// enough differences.
template <class F>
void for_parts(T a, T b, F&& f) {
  const std::int64_t each = std::max<std::int64_t>(b.size(1) * b.size(2), 1), rows = a.size(1);
  const std::int64_t batches =
      std::max<std::int64_t>(kDifferences / std::max<std::int64_t>(each * rows, 1), 1);
  const std::int64_t step = std::max<std::int64_t>(std::min(kDifferences / each, rows), 1);
  for (std::int64_t first = 0; first < a.size(0); first += batches) {
    const std::int64_t count = std::min(batches, a.size(0) - first);
    for (std::int64_t row = 0; row < rows; row += step)
      f(first, count, row, std::min(step, rows - row));
  }
}

/// sqrt(|a|^2 - 2 a b + |b|^2), as one product of rows with two more elements.
Tensor euclidean(T a, T b) {
  const auto squares = [](T t) { return sum(square(t), -1, true); };
  const auto ones = [](T t) { return ones_like(t.narrow(2, 0, 1)); };
  const Tensor left = cat({a * -2, squares(a), ones(a)}, 2);
  const Tensor right = cat({b, ones(b), squares(b)}, 2);
  return sqrt(clamp_min(bmm(left, right.transpose(1, 2)), 0));
}

/// Whether distances and their gradients come from products.
bool by_products(T a, T b, double p) {
  return p == 2 && (a.size(1) > kProductRows || b.size(1) > kProductRows);
}

/// Of the sum of grad_ij |a_i - b_j|: with h = grad / distance, a_i times the sum of h_ij, less the
/// products h_ij b_j, and the same for b.
Gradients euclidean_gradients(T grad, T a, T b, T out, Needs needs) {
  const Tensor zero = eq(out, 0), h = where(zero, 0, grad / where(zero, 1, out));
  return {needs[0] ? a * sum(h, {2}, true) - bmm(h, b) : Tensor(),
          needs[1] ? b * sum(h, {1}).unsqueeze(2) - bmm(h.transpose(1, 2), a) : Tensor()};
}

Tensor distances(T a, T b, double p) {
  if (a.size(2) == 0) return zeros({a.size(0), a.size(1), b.size(1)}, a.options());
  if (by_products(a, b, p)) return euclidean(a, b);
  Tensor out = empty({a.size(0), a.size(1), b.size(1)}, a.options());
  for_parts(a, b, [&](std::int64_t first, std::int64_t count, std::int64_t row, std::int64_t rows) {
    const Tensor left = a.narrow(0, first, count).narrow(1, row, rows);
    out.narrow(0, first, count)
        .narrow(1, row, rows)
        .copy_(norm(differences(left, b.narrow(0, first, count)), p, -1));
  });
  return out;
}

Gradients distance_gradients(T grad, T a, T b, T out, double p, Needs needs) {
  if (by_products(a, b, p)) return euclidean_gradients(grad, a, b, out, needs);
  const auto slope = [p](T grad, T a, T b, T out) {
    return ops::norm_gradient(grad.unsqueeze(-1), differences(a, b), out.unsqueeze(-1), p);
  };
  if (autograd::creating_graph()) {
    const Tensor all = slope(grad, a, b, out);
    return {sum(all, 2), neg(sum(all, 1))};
  }
  const Tensor left = zeros_like(a), right = zeros_like(b);
  for_parts(a, b, [&](std::int64_t first, std::int64_t count, std::int64_t row, std::int64_t rows) {
    const auto part = [&](T t) { return t.narrow(0, first, count).narrow(1, row, rows); };
    const Tensor all = slope(part(grad), part(a), b.narrow(0, first, count), part(out));
    part(left).copy_(sum(all, 2));
    right.narrow(0, first, count).sub_(sum(all, 1));
  });
  return {left, right};
}

/// Distances between the rows of [batch, m, k] and [batch, n, k].
Tensor batched(T a, T b, double p) {
  Tensor out = no_grad([&] { return distances(a, b, p); });
  if (autograd::recording(a, b))
    autograd::record(out, "cdist", {a, b},
                     [a = Saved(a), b = Saved(b), out = Saved::output(out), p](
                         T grad, Needs needs) -> Gradients {
                       return distance_gradients(grad, a.get(), b.get(), out.get(), p, needs);
                     });
  return out;
}

}  // namespace

Tensor cdist(T a, T b, double p) {
  if (const auto cast = ops::autocast(CastPolicy::float32, a, b)) {
    const auto& [x, y] = *cast;
    return cdist(x, y, p);
  }
  return composite(
      "cdist",
      [&] {
        ops::check_floating("cdist", a, b);
        FERRITE_CHECK(p >= 0, ValueError, "cdist", "expected p of 0 or more, got {}", p);
        FERRITE_CHECK(a.dim() >= 2 && b.dim() >= 2 && a.size(-1) == b.size(-1), ShapeError, "cdist",
                      "expected rows of one length, got {} and {}", a.shape(), b.shape());
        ops::check_same_device(a, b, "cdist");
        const auto lead = [](T t) {
          return Shape(std::span(t.shape().begin(), t.shape().end() - 2));
        };
        Shape batch = broadcast_shapes(lead(a), lead(b), "cdist");
        const std::int64_t count = batch.numel(), m = a.size(-2), n = b.size(-2), k = a.size(-1);
        const auto joined = [&](T t, std::int64_t rows) {
          Shape whole = batch;
          whole.push_back(rows), whole.push_back(k);
          return t.expand(whole).reshape({count, rows, k});
        };
        Tensor out = ops::computed_in(
            ops::result_type(a, b), [p](T x, T y) { return batched(x, y, p); }, joined(a, m),
            joined(b, n));
        batch.push_back(m), batch.push_back(n);
        return out.reshape(batch);
      },
      a, b);
}

}  // namespace ferrite
