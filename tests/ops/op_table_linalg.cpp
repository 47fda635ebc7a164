// linalg, of matrices that have the factors asked for.
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/linalg.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/ops/op_table.h"

namespace ferrite::test {

namespace {

using C = const Call&;
using T = const Tensor&;

/// A positive definite matrix made of `x`, where that is a matrix.
Tensor definite(T x) {
  const bool makes = x.defined() && takes(Takes::wide, x.dtype()) && x.dim() >= 2;
  if (!makes || x.size(-1) != x.size(-2)) return x;
  // No product that autocast computes in 16 bits.
  return sum(x.unsqueeze(-2) * x.unsqueeze(-3), -1) +
         eye(x.size(-1), {.dtype = x.dtype(), .device = x.device()});
}

/// A matrix whose first columns are far from dependent, where `x` is a matrix.
Tensor independent(T x) {
  const bool makes = x.defined() && takes(Takes::wide, x.dtype()) && x.dim() >= 2;
  return makes ? x + 8 * tril(triu(ones_like(x.detach()))) : x;
}

/// Columns of different lengths, so that singular values lie apart, where `x` is a matrix.
Tensor spread(T x) {
  const bool makes = x.defined() && takes(Takes::wide, x.dtype()) && x.dim() >= 2;
  return makes ? x * exp2(arange(x.size(-1), {.dtype = x.dtype(), .device = x.device()})) : x;
}

/// 1 or -1 for each column, by its first element: vectors may have either sign, and devices differ.
Tensor signs(T columns) {
  return sign(columns.size(-2) > 0 ? columns.narrow(-2, 0, 1) : sum(columns, {-2}, true));
}

std::vector<Tensor> svd_of(T x, bool full_matrices = false) {
  const auto [u, s, vh] = linalg::svd(x, full_matrices);
  // Further vectors may be any.
  const Tensor first = u.narrow(-1, 0, s.size(-1)), sign = signs(first);
  return {first * sign, s, vh.narrow(-2, 0, s.size(-1)) * sign.transpose(-2, -1)};
}

std::vector<Tensor> eigh_of(T x) {
  const auto [values, vectors] = linalg::eigh(x);
  return {values, vectors * signs(vectors)};
}

std::vector<Tensor> qr_of(T x, const char* mode = "reduced") {
  const auto [q, r] = linalg::qr(x, mode);
  const Tensor sign = signs(q);
  return {q * sign, r * sign.transpose(-2, -1)};
}

}  // namespace

void add_linalg(std::vector<Op>& table) {
  const Arg square{{2, 3, 3}}, tall{{2, 4, 3}}, wide{{2, 3, 5}};
  const Adder add{.table = table, .takes = Takes::wide, .args = {square}};
  const auto on_host = [&](Op& op) { op.on_host = true; };
  on_host(add("linalg_cholesky", [](T x) { return linalg::cholesky(definite(x)); }));
  on_host(add("linalg_solve", {square, {{2, 3, 2}}}, [](T a, T b) { return linalg::solve(a, b); }));
  on_host(add("linalg_solve_triangular", {square, {{2, 3, 2}}},
              [](T a, T b) { return linalg::solve_triangular(definite(a), b, true); }));
  on_host(add("cholesky_solve", {{{2, 3, 2}}, square},
              [](T b, T a) { return cholesky_solve(b, definite(a)); }));
  on_host(add("cholesky_inverse", [](T x) { return cholesky_inverse(definite(x), true); }));
  on_host(add("linalg_cond", [](T x) { return linalg::cond(definite(x)); }));
  on_host(add("linalg_inv", [](T x) { return linalg::inv(x); }));
  on_host(add("linalg_det", [](T x) { return linalg::det(definite(x)); }));
  on_host(add("linalg_slogdet", [](T x) { return linalg::slogdet(x); }));
  on_host(add("logdet", [](T x) { return logdet(definite(x)); }));
  on_host(add("linalg_cholesky", [](T x) { return cholesky(definite(x), true); }));
  on_host(add("linalg_det", [](T x) { return det(definite(x)); }));
  on_host(add("linalg_slogdet", [](T x) { return slogdet(x); }));
  on_host(add("linalg_inv", [](T x) { return inverse(definite(x)); }));
  on_host(add("linalg_pinv", [](T x) { return pinverse(definite(x), 1e-6); }));
  on_host(add("linalg_qr", {tall}, [](T x) { return qr_of(independent(x)); }));
  on_host(add("linalg_qr", {wide}, [](T x) { return qr_of(independent(x)); }));
  on_host(add("linalg_qr", {wide}, [](T x) { return qr_of(independent(x), "complete"); }));
  on_host(add("linalg_eigh", [](T x) { return eigh_of(x); }));
  on_host(add("linalg_eigvalsh", [](T x) { return linalg::eigvalsh(x); }));
  on_host(add("linalg_svd", {tall}, [](T x) { return svd_of(spread(x)); }));
  on_host(add("linalg_svd", {tall}, [](T x) { return svd_of(spread(x), true); }));
  on_host(add("linalg_svd", {wide}, [](T x) { return svd_of(spread(x), true); }));
  on_host(add("linalg_svdvals", {tall}, [](T x) { return linalg::svdvals(x); }));
  on_host(add("linalg_pinv", {tall}, [](T x) { return linalg::pinv(x); }));
  on_host(add("linalg_lstsq", {tall, {{2, 4, 2}}}, [](T a, T b) { return linalg::lstsq(a, b); }));
  on_host(add("linalg_matrix_rank", {tall}, [](T x) { return linalg::matrix_rank(x); }));
  add("linalg_matrix_power", [](T x) { return linalg::matrix_power(x, 3); });
  on_host(add("linalg_matrix_power", [](T x) { return linalg::matrix_power(x, -2); }));
  composed(add("linalg_multi_dot", Takes::products, {{{4, 3}}, {{3, 5}}, {{5}}}, [](C c) {
    return linalg::multi_dot({c[0], c[1], c[2]});
  }));
  add("linalg_vecdot", Takes::any, {{{4, 3}}, {{3}}},
      [](T a, T b) { return linalg::vecdot(a, b); });
  const Adder norms{.table = table, .takes = Takes::floating, .args = {tall}};
  norms("linalg_vector_norm", [](T x) { return linalg::vector_norm(x, 3, {0, 2}); });
  norms("linalg_matrix_norm", [](T x) { return linalg::matrix_norm(x); });
  norms("linalg_matrix_norm", [](T x) { return linalg::matrix_norm(x, 1); });
  norms("linalg_norm", [](T x) { return linalg::norm(x); });
}

}  // namespace ferrite::test
