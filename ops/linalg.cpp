#include "ferrite/ops/linalg.h"

#include <cmath>

#include "ferrite/autograd/record.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/linalg_factors.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite::linalg {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::record_many;
using autograd::recording;
using autograd::Saved;
using ops::composite;
namespace factors = ops::factors;

namespace {

using T = const Tensor&;

Tensor mT(T x) { return x.transpose(-2, -1); }

void check_matrix(T x, const char* op, bool square = false) {
  FERRITE_CHECK(x.dtype() == kFloat32 || x.dtype() == kFloat64, DTypeError, op,
                "expected float32 or float64, got {}", x.dtype());
  FERRITE_CHECK(x.dim() >= 2 && (!square || x.size(-2) == x.size(-1)), ShapeError, op,
                "expected {}matrices [..., m, n], got {}", square ? "square " : "", x.shape());
}

/// `square` (0 on the diagonal elsewhere) with half of the diagonal: what a triangle has of a
/// symmetric matrix.
Tensor lower_half(T x) {
  const Tensor lower = tril(x);
  return (lower + tril(x, -1)) * 0.5;
}

Tensor unit(T like) { return eye(like.size(-1), {.dtype = like.dtype(), .device = like.device()}); }

/// As a matrix with one column, if b is a vector for each of the matrices a.
bool is_vector(T a, T b) {
  return b.dim() == 1 || (b.dim() == a.dim() - 1 && b.shape() == [&] {
           Shape rows = a.shape();
           rows.erase(a.dim() - 1);
           return rows;
         }());
}

}  // namespace

// ---- cholesky

Tensor cholesky(T x) {
  return composite(
      "linalg_cholesky",
      [&] {
        check_matrix(x, "linalg_cholesky", true);
        Tensor out = no_grad([&] { return factors::cholesky("linalg_cholesky", x); });
        if (recording(x))
          record(out, "linalg_cholesky", {x}, [l = Saved::output(out)](T grad, Needs) {
            // Murray, "Differentiation of the Cholesky decomposition", 2016.
            const Tensor factor = l.get(), upper = mT(factor);
            const Tensor half = lower_half(matmul(upper, tril(grad)));
            const Tensor right = mT(solve(upper, mT(half)));  // half L^-1, transposed twice
            const Tensor full = solve(upper, right);
            return (full + mT(full)) * 0.5;
          });
        return out;
      },
      x);
}

// ---- solve, inv

namespace {

Tensor solve_matrices(T a, T b, const char* op) {
  Tensor out = no_grad([&] { return factors::solve(op, a, b); });
  if (recording(a, b))
    record(out, op, {a, b},
           [a = Saved(a), x = Saved::output(out), op](T grad, Needs needs) -> Gradients {
             const Tensor right = solve_matrices(mT(a.get()), grad, op);
             return {needs[0] ? neg(matmul(right, mT(x.get()))) : Tensor(),
                     needs[1] ? right : Tensor()};
           });
  return out;
}

Tensor solved(T a, T b, const char* op) {
  check_matrix(a, op, true);
  FERRITE_CHECK(b.dtype() == a.dtype(), DTypeError, op,
                "the matrix is {}, the right side {}; convert one with to(dtype)", a.dtype(),
                b.dtype());
  FERRITE_CHECK(a.device() == b.device(), DeviceError, op,
                "the matrix is on {}, the right side on {}; move one with to(device)", a.device(),
                b.device());
  FERRITE_CHECK(b.dim() > 0, ShapeError, op, "the right side has no dimensions");
  if (is_vector(a, b)) return solved(a, b.unsqueeze(-1), op).squeeze(-1);
  FERRITE_CHECK(b.size(-2) == a.size(-1), ShapeError, op, "a matrix of {} for a right side of {}",
                a.shape(), b.shape());
  const Shape batch = broadcast_shapes(factors::batch_shape(a), factors::batch_shape(b), op);
  return solve_matrices(a.expand(factors::joined(batch, {a.size(-2), a.size(-1)})),
                        b.expand(factors::joined(batch, {b.size(-2), b.size(-1)})), op);
}

}  // namespace

Tensor solve(T a, T b) {
  return composite(
      "linalg_solve", [&] { return solved(a, b, "linalg_solve"); }, a, b);
}

Tensor inv(T x) {
  return composite(
      "linalg_inv",
      [&] {
        check_matrix(x, "linalg_inv", true);
        return solve_matrices(x, unit(x).expand(x.shape()), "linalg_inv");
      },
      x);
}

// ---- Determinants

std::tuple<Tensor, Tensor> slogdet(T x) {
  return composite(
      "linalg_slogdet",
      [&] {
        check_matrix(x, "linalg_slogdet", true);
        const auto [sign, log] = no_grad([&] { return factors::slogdet("linalg_slogdet", x); });
        if (recording(x))
          record(log, "linalg_slogdet", {x}, [x = Saved(x)](T grad, Needs) {
            return mT(inv(x.get())) * grad.unsqueeze(-1).unsqueeze(-1);
          });
        return std::tuple(sign, log);
      },
      x);
}

namespace {

/// The products of all of s [..., n] except s_i and s_j, [..., n, n]; 0 on the diagonal.
Tensor products_without_two(T s) {
  const std::int64_t n = s.size(-1);
  const Tensor one = ones_like(s.narrow(-1, 0, 1)), all[] = {one, s.narrow(-1, 0, n - 1)},
               reversed[] = {one, flip(s, {-1}).narrow(-1, 0, n - 1)};
  const Tensor before = cumprod(cat(all, -1), -1),
               after = flip(cumprod(cat(reversed, -1), -1), {-1});
  // Row i, column j: those from i + 1 to j, which is j - 1 one column further.
  const Tensor later = triu(ones_like(unit(s)), 1).to(kBool);
  const Tensor through = cumprod(where(later, s.unsqueeze(-2), 1), -1);
  const Tensor first[] = {ones_like(through.narrow(-1, 0, 1)), through.narrow(-1, 0, n - 1)};
  const Tensor upper = triu(before.unsqueeze(-1) * cat(first, -1) * after.unsqueeze(-2), 1);
  return upper + mT(upper);
}

/// The derivatives of determinants of any matrices, by their singular values s. Those of u and vh
/// are not needed: the determinant is the product of s, and the second derivatives of a product
/// are products without two of its factors.
Tensor cofactors_by_svd(T x) {
  Tensor out = no_grad([&] {
    const auto [u, s, vh] = svd(x);
    const Tensor others =
        prod(masked_fill(s.unsqueeze(-2).expand(x.shape()), unit(x).to(kBool), 1), -1);
    return matmul(u * others.unsqueeze(-2), vh) *
           (linalg::det(u) * linalg::det(vh)).unsqueeze(-1).unsqueeze(-1);
  });
  if (recording(x))
    record(out, "linalg_det", {x}, [x = Saved(x)](T grad, Needs) {
      const auto [u, s, vh] = svd(x.get());
      const Tensor sign = no_grad([&u = u, &vh = vh] { return linalg::det(u) * linalg::det(vh); });
      const Tensor inner = matmul(mT(u), matmul(grad, mT(vh))), p = products_without_two(s);
      const Tensor diagonals = matmul(p, diagonal(inner, 0, -2, -1).unsqueeze(-1));
      const Tensor second = unit(p) * diagonals - p * mT(inner);
      return matmul(u, matmul(second, vh)) * sign.unsqueeze(-1).unsqueeze(-1);
    });
  return out;
}

Tensor cofactors_by_inverse(T x) { return mT(inv(x)) * linalg::det(x).unsqueeze(-1).unsqueeze(-1); }

/// Whether the smallest singular value is far below the largest: [...].
Tensor nearly_singular(T x) {
  const Tensor s = svdvals(x);
  if (s.size(-1) == 0) return eq(linalg::det(x), 0);
  const double epsilon = x.dtype() == kFloat32 ? std::numeric_limits<float>::epsilon()
                                               : std::numeric_limits<double>::epsilon();
  return le(s.select(-1, -1), s.select(-1, 0) * std::sqrt(epsilon));
}

/// The derivatives of determinants. A further derivative of the inverse is inaccurate near singular
/// matrices, one of singular values impossible where these are equal.
Tensor cofactors(T x) {
  const bool again = recording(x);
  const Tensor singular =
      no_grad([&] { return (again ? nearly_singular(x) : eq(linalg::det(x), 0)).reshape({-1}); });
  if (!any(singular).item<bool>()) return cofactors_by_inverse(x);
  if (!again || all(singular).item<bool>()) return cofactors_by_svd(x);
  const Tensor matrices = x.reshape({singular.numel(), x.size(-2), x.size(-1)});
  const Tensor places[] = {nonzero(singular).squeeze(1), nonzero(logical_not(singular)).squeeze(1)};
  const Tensor parts[] = {cofactors_by_svd(matrices.index_select(0, places[0])),
                          cofactors_by_inverse(matrices.index_select(0, places[1]))};
  return cat(parts, 0).index_select(0, argsort(cat(places, 0))).reshape(x.shape());
}

}  // namespace

Tensor det(T x) {
  return composite(
      "linalg_det",
      [&] {
        check_matrix(x, "linalg_det", true);
        Tensor out = no_grad([&] {
          // exp() enlarges the rounding of a float32; the host computes in float64 anyway.
          const auto [sign, log] = linalg::slogdet(x.device().is_cpu() ? x.to(kFloat64) : x);
          return (sign * exp(log)).to(x.dtype());
        });
        if (recording(x))
          record(out, "linalg_det", {x}, [x = Saved(x)](T grad, Needs) {
            return cofactors(x.get()) * grad.unsqueeze(-1).unsqueeze(-1);
          });
        return out;
      },
      x);
}

// ---- qr

namespace {

/// Seeger et al., "Auto-differentiating linear algebra", 2017; of square r.
Tensor tall_qr_gradient(T grad_q, T grad_r, T q, T r) {
  Tensor m = grad_r.defined() ? matmul(r, mT(grad_r)) : Tensor();
  if (grad_q.defined()) {
    const Tensor part = matmul(mT(grad_q), q);
    m = m.defined() ? m - part : neg(part);
  }
  const Tensor symmetric = tril(m) + mT(tril(m, -1));
  Tensor right = matmul(q, symmetric);
  if (grad_q.defined()) right = right + grad_q;
  return mT(solve(r, mT(right)));
}

/// Of a wide matrix [a b] the first, square part has the factors q and r_a, and r_b is q^T b
/// (Roberts and Roberts, "QR and LQ decomposition matrix backpropagation algorithms", 2020).
Tensor qr_gradient(T grad_q, T grad_r, T q, T r) {
  const std::int64_t k = r.size(-2), rest = r.size(-1) - k;
  if (rest == 0) return tall_qr_gradient(grad_q, grad_r, q, r);
  const Tensor r_a = r.narrow(-1, 0, k), r_b = r.narrow(-1, k, rest);
  if (!grad_r.defined()) {
    const Tensor a = tall_qr_gradient(grad_q, {}, q, r_a);
    const Tensor parts[] = {a, zeros_like(r_b)};
    return cat(parts, -1);
  }
  const Tensor grad_a = grad_r.narrow(-1, 0, k), grad_b = grad_r.narrow(-1, k, rest);
  const Tensor of_b = matmul(matmul(q, r_b), mT(grad_b));
  const Tensor parts[] = {tall_qr_gradient(grad_q.defined() ? grad_q + of_b : of_b, grad_a, q, r_a),
                          matmul(q, grad_b)};
  return cat(parts, -1);
}

}  // namespace

std::tuple<Tensor, Tensor> qr(T x, std::string_view mode) {
  return composite(
      "linalg_qr",
      [&] {
        check_matrix(x, "linalg_qr");
        FERRITE_CHECK(mode == "reduced" || mode == "complete", ValueError, "linalg_qr",
                      "expected the mode reduced or complete, got {}", mode);
        const std::int64_t m = x.size(-2), n = x.size(-1),
                           k = mode == "reduced" ? std::min(m, n) : m;
        const auto [q, r] = no_grad([&] { return factors::qr("linalg_qr", x, k); });
        if (recording(x)) {
          const bool possible = k == std::min(m, n);
          const Tensor outs[] = {q, r};
          record_many(
              outs, "linalg_qr", {&x, 1},
              [q = Saved::output(q), r = Saved::output(r, 1), possible](Gradients& grads, Needs) {
                FERRITE_CHECK(possible, AutogradError, "linalg_qr",
                              "the mode complete has no gradient for matrices with more rows "
                              "than columns ({}); use the mode reduced",
                              q.get().shape());
                return Gradients{qr_gradient(grads[0], grads[1], q.get(), r.get())};
              });
        }
        return std::tuple(q, r);
      },
      x);
}

// ---- eigh

namespace {

/// 1 / (s_j - s_i), and 0 on the diagonal.
Tensor inverse_differences(T s) {
  const Tensor difference = s.unsqueeze(-2) - s.unsqueeze(-1);
  const Tensor same = unit(difference).to(kBool);
  return where(same, 0, 1 / where(same, 1, difference));
}

}  // namespace

std::tuple<Tensor, Tensor> eigh(T x) {
  return composite(
      "linalg_eigh",
      [&] {
        check_matrix(x, "linalg_eigh", true);
        const auto [values, vectors] = no_grad([&] { return factors::eigh("linalg_eigh", x); });
        if (recording(x)) {
          const Tensor outs[] = {values, vectors};
          record_many(outs, "linalg_eigh", {&x, 1},
                      [values = Saved::output(values), vectors = Saved::output(vectors, 1)](
                          Gradients& grads, Needs) {
                        const Tensor v = vectors.get();
                        Tensor inner;
                        if (grads[1].defined())
                          inner = matmul(mT(v), grads[1]) * inverse_differences(values.get());
                        if (grads[0].defined()) {
                          const Tensor diagonal = unit(v) * grads[0].unsqueeze(-2);
                          inner = inner.defined() ? inner + diagonal : diagonal;
                        }
                        const Tensor full = matmul(matmul(v, inner), mT(v));
                        return Gradients{(full + mT(full)) * 0.5};
                      });
        }
        return std::tuple(values, vectors);
      },
      x);
}
Tensor eigvalsh(T x) {
  return composite(
      "linalg_eigvalsh", [&] { return std::get<0>(eigh(x)); }, x);
}

// ---- svd

namespace {

/// Townsend, "Differentiating the singular value decomposition", 2016.
Tensor svd_gradient(const Gradients& grads, T u, T s, T vh) {
  const Tensor v = mT(vh), across = s.unsqueeze(-2), down = s.unsqueeze(-1);
  Tensor inner;
  const auto add_part = [&](T part) { inner = inner.defined() ? inner + part : part; };
  const Tensor f = inverse_differences(square(s));
  Tensor outside;
  if (grads[0].defined()) {
    const Tensor m = matmul(mT(u), grads[0]);
    add_part(f * (m - mT(m)) * across);
    const Tensor rest = (grads[0] - matmul(u, m)) / across;
    outside = matmul(rest, vh);
  }
  if (grads[2].defined()) {
    const Tensor grad_v = mT(grads[2]), m = matmul(vh, grad_v);
    add_part(f * (m - mT(m)) * down);
    const Tensor rest = matmul(u, mT(grad_v - matmul(v, m)) / down);
    outside = outside.defined() ? outside + rest : rest;
  }
  if (grads[1].defined()) add_part(unit(f) * grads[1].unsqueeze(-2));
  const Tensor inside = matmul(matmul(u, inner), vh);
  return outside.defined() ? inside + outside : inside;
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> svd(T x, bool full_matrices) {
  return composite(
      "linalg_svd",
      [&] {
        check_matrix(x, "linalg_svd");
        const std::int64_t k = std::min(x.size(-2), x.size(-1));
        const auto [u, s, vh] =
            no_grad([&] { return factors::svd("linalg_svd", x, full_matrices); });
        if (recording(x)) {
          const Tensor outs[] = {u, s, vh};
          record_many(outs, "linalg_svd", {&x, 1},
                      [u = Saved::output(u), s = Saved::output(s, 1), vh = Saved::output(vh, 2), k](
                          Gradients& grads, Needs) {
                        // Vectors beyond k have none.
                        if (grads[0].defined()) grads[0] = grads[0].narrow(-1, 0, k);
                        if (grads[2].defined()) grads[2] = grads[2].narrow(-2, 0, k);
                        return Gradients{svd_gradient(grads, u.get().narrow(-1, 0, k), s.get(),
                                                      vh.get().narrow(-2, 0, k))};
                      });
        }
        return std::tuple(u, s, vh);
      },
      x);
}
Tensor svdvals(T x) {
  return composite(
      "linalg_svdvals", [&] { return std::get<1>(svd(x, false)); }, x);
}

// ---- Made of these

namespace {

double default_tolerance(T x) {
  const double epsilon = x.dtype() == kFloat32 ? std::numeric_limits<float>::epsilon()
                                               : std::numeric_limits<double>::epsilon();
  return epsilon * static_cast<double>(std::max(x.size(-2), x.size(-1)));
}

/// [..., 1]: the largest of the singular values.
Tensor largest(T s) { return s.size(-1) > 0 ? s.narrow(-1, 0, 1) : s; }

/// Golub and Pereyra, "The differentiation of pseudo-inverses", 1973: also where singular values
/// are equal or 0, if the rank stays.
Tensor pinv_gradient(T grad, T x, T p) {
  const Tensor g = mT(grad), left = matmul(mT(p), matmul(p, g)),
               right = matmul(g, matmul(p, mT(p)));
  return left - matmul(left, matmul(p, x)) + right - matmul(x, matmul(p, right)) -
         matmul(mT(p), matmul(grad, mT(p)));
}

}  // namespace

Tensor pinv(T x, std::optional<double> rcond) {
  return composite(
      "linalg_pinv",
      [&] {
        check_matrix(x, "linalg_pinv");
        if (x.numel() == 0) return mT(x).clone();
        Tensor out = no_grad([&] {
          const auto [u, s, vh] = svd(x, false);
          const Tensor used = gt(s, largest(s) * rcond.value_or(default_tolerance(x)));
          const Tensor inverse = where(used, 1 / where(used, s, 1), 0);
          return matmul(mT(vh) * inverse.unsqueeze(-2), mT(u));
        });
        if (recording(x))
          record(out, "linalg_pinv", {x},
                 [x = Saved(x), inverse = Saved::output(out)](T grad, Needs) {
                   return pinv_gradient(grad, x.get(), inverse.get());
                 });
        return out;
      },
      x);
}

Tensor lstsq(T a, T b) {
  return composite(
      "linalg_lstsq",
      [&] {
        check_matrix(a, "linalg_lstsq");
        FERRITE_CHECK(b.dim() >= 2 && b.size(-2) == a.size(-2), ShapeError, "linalg_lstsq",
                      "a matrix of {} for a right side of {}", a.shape(), b.shape());
        return matmul(pinv(a), b);
      },
      a, b);
}

Tensor matrix_rank(T x, std::optional<double> tol) {
  return composite(
      "linalg_matrix_rank",
      [&] {
        check_matrix(x, "linalg_matrix_rank");
        const NoGradGuard guard;
        const Tensor s = svdvals(x);
        const Tensor above = tol ? gt(s, *tol) : gt(s, largest(s) * default_tolerance(x));
        return sum(above, -1);
      },
      x);
}

Tensor matrix_power(T x, std::int64_t n) {
  return composite(
      "linalg_matrix_power",
      [&] {
        check_matrix(x, "linalg_matrix_power", true);
        FERRITE_CHECK(n > INT64_MIN, ValueError, "linalg_matrix_power", "the power {} is too low",
                      n);
        if (n == 0) return unit(x).expand(x.shape()).clone();
        if (n == 1) return x.clone();
        Tensor base = n < 0 ? inv(x) : x, result;
        for (std::int64_t e = std::abs(n); e > 0; e /= 2) {
          if (e % 2) result = result.defined() ? matmul(result, base) : base;
          if (e > 1) base = matmul(base, base);
        }
        return result;
      },
      x);
}

}  // namespace ferrite::linalg
