// Triangular matrices and products of several: torch.linalg's functions that are made of others.
#include <limits>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/linalg.h"
#include "ferrite/ops/linalg_factors.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"

namespace ferrite {

using ops::composite;

namespace {

using T = const Tensor&;

TensorOptions like(T x) { return {.dtype = x.dtype(), .device = x.device()}; }

Tensor unit(T x) { return eye(x.size(-1), like(x)); }

void check_square(T x, const char* op) {
  FERRITE_CHECK(x.dim() >= 2 && x.size(-2) == x.size(-1), ShapeError, op,
                "expected square matrices [..., n, n], got {}", x.shape());
}

/// The product of matrices `first` to `last`, in the order that costs the fewest multiplications:
/// `split` has the last matrix of the left factor, by both indices.
Tensor product(TensorList matrices, const std::vector<std::vector<std::size_t>>& split,
               std::size_t first, std::size_t last) {
  if (first == last) return matrices[first];
  const std::size_t middle = split[first][last];
  return matmul(product(matrices, split, first, middle),
                product(matrices, split, middle + 1, last));
}

/// Cormen et al., "Introduction to Algorithms", 15.2.
std::vector<std::vector<std::size_t>> best_splits(TensorList matrices) {
  const std::size_t n = matrices.size();
  std::vector<double> sizes{static_cast<double>(matrices[0].size(0))};
  for (T m : matrices) sizes.push_back(static_cast<double>(m.size(1)));
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<std::size_t>> split(n, std::vector<std::size_t>(n, 0));
  for (std::size_t length = 1; length < n; ++length)
    for (std::size_t first = 0; first + length < n; ++first) {
      const std::size_t last = first + length;
      cost[first][last] = std::numeric_limits<double>::infinity();
      for (std::size_t middle = first; middle < last; ++middle) {
        const double c = cost[first][middle] + cost[middle + 1][last] +
                         sizes[first] * sizes[middle + 1] * sizes[last + 1];
        if (c >= cost[first][last]) continue;
        cost[first][last] = c;
        split[first][last] = middle;
      }
    }
  return split;
}

}  // namespace

Tensor linalg::solve_triangular(T a, T b, bool upper, bool left, bool unitriangular) {
  return composite(
      "linalg_solve_triangular",
      [&] {
        check_square(a, "linalg_solve_triangular");
        FERRITE_CHECK(b.dim() >= 2 && b.size(left ? -2 : -1) == a.size(-1), ShapeError,
                      "linalg_solve_triangular", "a matrix of {} for a {} side of {}", a.shape(),
                      left ? "right" : "left", b.shape());
        Tensor part = upper ? triu(a, unitriangular ? 1 : 0) : tril(a, unitriangular ? -1 : 0);
        if (unitriangular) part = part + unit(a);
        // solve() takes a right side with fewer dimensions for a batch of vectors.
        const Shape batch = broadcast_shapes(
            ops::factors::batch_shape(a), ops::factors::batch_shape(b), "linalg_solve_triangular");
        const Tensor sides = b.expand(ops::factors::joined(batch, {b.size(-2), b.size(-1)}));
        return left ? solve(part, sides) : solve(part.mT(), sides.mT()).mT();
      },
      a, b);
}

Tensor cholesky_solve(T b, T factor, bool upper) {
  return composite(
      "cholesky_solve",
      [&] {
        check_square(factor, "cholesky_solve");
        const Tensor lower = upper ? factor.mT() : factor;
        return linalg::solve_triangular(lower.mT(), linalg::solve_triangular(lower, b, false),
                                        true);
      },
      b, factor);
}

Tensor cholesky_inverse(T factor, bool upper) {
  return composite(
      "cholesky_inverse",
      [&] {
        check_square(factor, "cholesky_inverse");
        return cholesky_solve(unit(factor).expand(factor.shape()), factor, upper);
      },
      factor);
}

Tensor linalg::multi_dot(TensorList tensors) {
  constexpr const char* kOp = "linalg_multi_dot";
  FERRITE_CHECK(tensors.size() >= 2, ValueError, kOp, "expected two tensors or more, got {}",
                tensors.size());
  const profiler::OpRange range(kOp, tensors);
  std::vector<Tensor> matrices(tensors.begin(), tensors.end());
  for (T t : matrices) ops::check_defined(t, kOp);
  const bool row = matrices.front().dim() == 1, column = matrices.back().dim() == 1;
  if (row) matrices.front() = matrices.front().unsqueeze(0);
  if (column) matrices.back() = matrices.back().unsqueeze(1);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    FERRITE_CHECK(matrices[i].dim() == 2, ShapeError, kOp,
                  "expected matrices, and vectors at the ends alone; tensor {} has the shape {}", i,
                  tensors[i].shape());
    FERRITE_CHECK(i == 0 || matrices[i - 1].size(1) == matrices[i].size(0), ShapeError, kOp,
                  "tensors {} and {} do not fit: {} and {}", i - 1, i, tensors[i - 1].shape(),
                  tensors[i].shape());
  }
  Tensor out = ops::renamed(
      kOp, [&] { return product(matrices, best_splits(matrices), 0, matrices.size() - 1); });
  if (column) out = out.squeeze(1);
  return row ? out.squeeze(0) : out;
}

Tensor linalg::vecdot(T x, T y, int dim) {
  return composite(
      "linalg_vecdot", [&] { return sum(conj(x) * y, {dim}); }, x, y);
}

Tensor linalg::cond(T x, std::optional<double> order) {
  return composite(
      "linalg_cond",
      [&] {
        const double p = order.value_or(2);
        const bool spectral = p == 2 || p == -2;
        if (!spectral) check_square(x, "linalg_cond");
        if (x.numel() == 0) return zeros(ops::factors::batch_shape(x), like(x));
        if (!spectral) {
          // Singular matrices have no inverse.
          const Tensor singular = no_grad([&] { return eq(std::get<0>(linalg::slogdet(x)), 0); });
          const Tensor invertible =
              where(singular.unsqueeze(-1).unsqueeze(-1), eye(x.size(-1), like(x)), x);
          const Tensor number = matrix_norm(x, p) * matrix_norm(inv(invertible), p);
          return where(singular, std::numeric_limits<double>::infinity(), number);
        }
        const Tensor s = svdvals(x), largest = s.select(-1, 0), smallest = s.select(-1, -1);
        return p == 2 ? largest / smallest : smallest / largest;
      },
      x);
}

}  // namespace ferrite
