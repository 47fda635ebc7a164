// Norms of vectors and matrices (declared in ops/linalg.h).
#include <algorithm>
#include <cmath>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/linalg.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"

namespace ferrite::linalg {

using ops::composite;

namespace {
using T = const Tensor&;
}  // namespace

Tensor vector_norm(T x, double p, const Dims& dims, bool keepdim) {
  return composite(
      "linalg_vector_norm", [&] { return ferrite::norm(x, p, dims, keepdim); }, x);
}

namespace {

/// f of `x` with the two dimensions last, whose place its result, of size 1 there, takes.
template <class F>
Tensor of_matrices(T x, const Dims& dims, bool keepdim, const F& f) {
  const char* const op = "linalg_matrix_norm";
  FERRITE_CHECK(dims.size() == 2 && x.dim() >= 2, ShapeError, op,
                "expected two dimensions, got {} of {}", dims, x.shape());
  const int a = normalize_dim(dims[0], x.dim(), op), b = normalize_dim(dims[1], x.dim(), op);
  FERRITE_CHECK(a != b, ValueError, op, "dimension {} is given twice", a);
  const Tensor kept = movedim(f(movedim(x, {a, b}, {-2, -1})), {-2, -1}, {a, b});
  return keepdim ? kept : kept.squeeze(std::max(a, b)).squeeze(std::min(a, b));
}

Tensor singular_values(T x) { return svdvals(x).unsqueeze(-1); }

}  // namespace

Tensor matrix_norm(T x, std::string_view order, const Dims& dims, bool keepdim) {
  return composite(
      "linalg_matrix_norm",
      [&] {
        FERRITE_CHECK(order == "fro" || order == "nuc", ValueError, "linalg_matrix_norm",
                      "expected fro or nuc, got {}", order);
        return of_matrices(x, dims, keepdim, [&](T m) {
          if (order == "fro") return ferrite::norm(m, 2, {-2, -1}, true);
          return sum(singular_values(m), {-2, -1}, true);
        });
      },
      x);
}

Tensor matrix_norm(T x, double order, const Dims& dims, bool keepdim) {
  return composite(
      "linalg_matrix_norm",
      [&] {
        const double size = std::abs(order);
        FERRITE_CHECK(size == 1 || size == 2 || std::isinf(size), ValueError, "linalg_matrix_norm",
                      "expected 1, 2 or infinity, or minus that, got {}", order);
        return of_matrices(x, dims, keepdim, [&](T m) {
          const Tensor values =
              size == 2 ? singular_values(m) : ferrite::norm(m, 1, size == 1 ? -2 : -1, true);
          return order > 0 ? amax(values, {-2, -1}, true) : amin(values, {-2, -1}, true);
        });
      },
      x);
}

Tensor norm(T x, std::optional<double> order, const Dims& dims, bool keepdim) {
  return composite(
      "linalg_norm",
      [&] {
        const int reduced = dims.empty() ? x.dim() : dims.size();
        FERRITE_CHECK(!order || !dims.empty() || reduced == 1 || reduced == 2, ShapeError,
                      "linalg_norm",
                      "expected a vector or a matrix for an order without dimensions, got {}; give "
                      "the dimensions, or no order for the norm of all elements",
                      x.shape());
        if (!order || reduced == 1) return vector_norm(x, order.value_or(2), dims, keepdim);
        return matrix_norm(x, *order, dims.empty() ? Dims{-2, -1} : dims, keepdim);
      },
      x);
}

}  // namespace ferrite::linalg

namespace ferrite {

Tensor norm(const Tensor& t, std::string_view p, const Dims& dims, bool keepdim) {
  ops::check_defined(t, "norm");
  if (p == "fro" && dims.size() <= 2) return norm(t, 2, dims, keepdim);
  Dims all = dims;
  if (dims.empty())
    for (int d = 0; d < t.dim(); ++d) all.push_back(d);
  return linalg::matrix_norm(t, p, all, keepdim);
}

Tensor renorm(const Tensor& t, double p, int dim, double maxnorm) {
  if (const auto cast = ops::autocast(CastPolicy::float32, t))
    return renorm(*cast, p, dim, maxnorm);
  return ops::composite(
      "renorm",
      [&] {
        FERRITE_CHECK(t.dim() >= 2, ShapeError, "renorm", "expected two dimensions or more, got {}",
                      t.describe());
        FERRITE_CHECK(p > 0 && maxnorm >= 0, ValueError, "renorm",
                      "expected p above 0 and a maxnorm of 0 or more, got {} and {}", p, maxnorm);
        const int kept = normalize_dim(dim, t.dim(), "renorm");
        Dims dims;
        for (int d = 0; d < t.dim(); ++d)
          if (d != kept) dims.push_back(d);
        return ops::computed_in(
            t.dtype(),
            [&](const Tensor& x) {
              const Tensor norms = norm(x, p, dims, true);
              return x * where(gt(norms, maxnorm), maxnorm / (norms + 1e-7), 1);
            },
            t);
      },
      t);
}

}  // namespace ferrite
