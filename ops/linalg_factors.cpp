#include "ferrite/ops/linalg_factors.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ferrite/core/host_copy.h"
#include "ferrite/core/stream.h"
#include "ferrite/kernels/cuda/vendor/cusolver.h"
#include "ferrite/kernels/linalg.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite::ops::factors {

namespace {

using T = const Tensor&;

// ---- By cuSOLVER: of contiguous batches [n, rows, columns], none of them empty

namespace on_device {

namespace solver = kernels::cuda::solver;

/// Whether `x` is of a CUDA device, not empty, and cuSOLVER serves there.
bool takes(T x) { return x.device().is_cuda() && x.numel() > 0 && solver::is_usable(); }

/// A copy of the matrices in the other order of memory. cuSOLVER's is column-major: [n, columns,
/// rows].
Tensor turned(T x) {
  const Tensor t = x.transpose(-2, -1);
  return t.is_contiguous() ? t.clone() : t.contiguous();  // one row is one column
}

Tensor made_like(T x, const Shape& shape) {
  return empty(shape, {.dtype = x.dtype(), .device = x.device()});
}
Tensor made_int(T x, const Shape& shape, DType dtype) {
  return zeros(shape, {.dtype = dtype, .device = x.device()});
}
Tensor info_of(T x) { return made_int(x, {x.size(0)}, kInt32); }

/// The first matrix for which info is not 0; -1 if there is none. Waits.
std::int64_t find_bad(const char* op, T info) {
  const std::vector<std::int32_t> found = info.to_vector<std::int32_t>();
  const auto bad = std::ranges::find_if(found, [](std::int32_t i) { return i != 0; });
  if (bad == found.end()) return -1;
  FERRITE_CHECK(*bad > 0, CudaError, op, "cuSOLVER refused argument {}", -*bad);
  return bad - found.begin();
}

/// ValueError, naming the first matrix, unless all numbers are 0. Waits.
void check_info(const char* op, T info, const char* problem) {
  if (const std::int64_t bad = find_bad(op, info); bad >= 0)
    fail<ValueError>(op, "matrix {} of the batch {}", bad, problem);
}

void check_finite(const char* op, T x) {
  const Tensor bad = logical_not(all(isfinite(x.reshape({x.size(0), -1})), 1));
  check_info(op, bad.to(kInt32), "has NaN or infinities");
}

/// The factors L and U, the pivots and info of the matrices that `columns` has, in its place.
std::pair<Tensor, Tensor> factorize(T columns) {
  const Tensor pivots = made_int(columns, {columns.size(0), columns.size(1)},
                                 solver::pivots_of(columns)),
               info = info_of(columns);
  solver::getrf(current_stream(columns.device()), columns, pivots, info);
  return {pivots, info};
}

Tensor cholesky(const char* op, T x) {
  // The lower triangle is the upper one of the other order, and L^T its factor.
  const Tensor factor = x.clone(), info = info_of(x);
  solver::potrf(current_stream(x.device()), factor, info);
  check_info(op, info, "is not positive definite");
  return tril(factor);
}

Tensor solve(const char* op, T a, T b) {
  const Tensor left = turned(a), right = turned(b);
  const auto [pivots, info] = factorize(left);
  check_info(op, info, "is singular");
  solver::getrs(current_stream(a.device()), left, pivots, right, info);
  return turned(right);
}

std::tuple<Tensor, Tensor> slogdet(T x) {
  const Tensor factors = turned(x);
  const auto [pivots, info] = factorize(factors);
  const std::int64_t n = x.size(-1);
  const Tensor in_place = arange(1, n + 1, 1, {.dtype = pivots.dtype(), .device = x.device()});
  const Tensor odd = remainder(sum(ne(pivots, in_place), 1), 2).to(x.dtype());
  const Tensor values = diagonal(factors, 0, -2, -1), singular = gt(info, 0);
  return {where(singular, 0, prod(sign(values), 1) * (1 - odd * 2)),
          where(singular, -INFINITY, sum(log(abs(values)), {1}))};
}

std::tuple<Tensor, Tensor> qr(T x, std::int64_t k) {
  const Stream stream = current_stream(x.device());
  const std::int64_t n = x.size(0), rows = x.size(1), columns = x.size(2);
  const Tensor factors = turned(x), tau = made_like(x, {n, std::min(rows, columns)}),
               info = info_of(x);
  solver::geqrf(stream, factors, tau, info);
  const Tensor r = triu(turned(factors).narrow(1, 0, k)).contiguous();
  Tensor q = factors.narrow(1, 0, std::min(k, columns)).clone();
  if (k > columns) {
    const Tensor parts[] = {q, zeros(Shape{n, k - columns, rows},
                                     TensorOptions{.dtype = x.dtype(), .device = x.device()})};
    q = cat(parts, 1);
  }
  solver::orgqr(stream, q, factors, tau, info);
  return {turned(q), r};
}

std::tuple<Tensor, Tensor> eigh(const char* op, T x) {
  check_finite(op, x);
  const Tensor vectors = x.clone(), values = made_like(x, {x.size(0), x.size(1)}),
               info = info_of(x);
  solver::syevd(current_stream(x.device()), vectors, values, info);
  check_info(op, info, "has eigenvalues that did not converge");
  return {values, turned(vectors)};
}

std::tuple<Tensor, Tensor, Tensor> svd(const char* op, T x, bool full) {
  check_finite(op, x);
  const std::int64_t n = x.size(0), rows = x.size(1), columns = x.size(2);
  const std::int64_t most = std::max(rows, columns), least = std::min(rows, columns);
  const Stream stream = current_stream(x.device());
  if (solver::has_gesvdj(x)) {
    const Tensor a = turned(x), u = made_like(x, {n, rows, rows}), s = made_like(x, {n, least}),
                 v = made_like(x, {n, columns, columns}), info = info_of(x);
    solver::gesvdj(stream, a, u, s, v, info);
    if (find_bad(op, info) < 0)
      return {turned(u.narrow(1, 0, full ? rows : least)), s,
              v.narrow(1, 0, full ? columns : least).contiguous()};
    // Otherwise gesvd, which converges in more cases.
  }
  // gesvd takes no matrices that are wider than tall: those are transposed, which is their other
  // order of memory, and both vectors change places.
  const bool tall = rows >= columns;
  const Tensor a = tall ? turned(x) : x.clone(), u = made_like(x, {n, full ? most : least, most}),
               s = made_like(x, {n, least}), vt = made_like(x, {n, least, least}),
               info = info_of(x);
  solver::gesvd(stream, a, u, s, vt, info);
  check_info(op, info, "has singular values that did not converge");
  return tall ? std::tuple(turned(u), s, turned(vt)) : std::tuple(vt, s, u);
}

}  // namespace on_device

// ---- Batches

/// As the kernels take them: contiguous, [n, rows, columns], on the host where the tensor is of a
/// CUDA device that cannot do it.
Tensor batch_of(T x, const char* op) {
  if (x.device().is_cuda()) ferrite::detail::check_may_read(x.device(), op);
  const Tensor near = x.device().is_cuda() && !on_device::takes(x) ? x.cpu() : x;
  return near.contiguous().reshape({batch_shape(x).numel(), x.size(-2), x.size(-1)});
}

Tensor space(T host, std::initializer_list<std::int64_t> sizes) {
  return empty(joined({host.size(0)}, sizes), {.dtype = host.dtype(), .device = host.device()});
}

/// A result [n, ...] in the batch and on the device of `x`.
Tensor back(T x, T result) {
  Shape shape = batch_shape(x);
  for (int d = 1; d < result.dim(); ++d) shape.push_back(result.size(d));
  return result.reshape(shape).to(x.device());
}
template <class... Results>
std::tuple<Results...> back(T x, const std::tuple<Results...>& results) {
  return std::apply([&](const auto&... r) { return std::tuple(back(x, r)...); }, results);
}

Stream stream_of(T host) { return current_stream(host.device()); }

}  // namespace

Shape batch_shape(T x) {
  Shape shape;
  for (int d = 0; d < x.dim() - 2; ++d) shape.push_back(x.size(d));
  return shape;
}

Shape joined(Shape batch, std::initializer_list<std::int64_t> sizes) {
  for (std::int64_t n : sizes) batch.push_back(n);
  return batch;
}

Tensor cholesky(const char* op, T x) {
  const Tensor in = batch_of(x, op);
  if (on_device::takes(in)) return back(x, on_device::cholesky(op, in));
  const Tensor l = empty_like(in);
  kernels::cholesky(stream_of(in), op, l, in);
  return back(x, l);
}

Tensor solve(const char* op, T a, T b) {
  if (on_device::takes(a) && on_device::takes(b))
    return back(b, on_device::solve(op, batch_of(a, op), batch_of(b, op)));
  // One of the two may be empty, and the other not.
  const Device near = a.device().is_cuda() ? Device("cpu") : a.device();
  const Tensor left = batch_of(a, op).to(near), right = batch_of(b, op).to(near),
               x = empty_like(right);
  kernels::solve(stream_of(left), op, x, left, right);
  return back(b, x);
}

std::tuple<Tensor, Tensor> slogdet(const char* op, T x) {
  const Tensor in = batch_of(x, op);
  if (on_device::takes(in)) return back(x, on_device::slogdet(in));
  const Tensor sign = space(in, {}), log = space(in, {});
  kernels::slogdet(stream_of(in), op, sign, log, in);
  return back(x, std::tuple(sign, log));
}

std::tuple<Tensor, Tensor> qr(const char* op, T x, std::int64_t k) {
  const Tensor in = batch_of(x, op);
  if (on_device::takes(in)) return back(x, on_device::qr(in, k));
  const Tensor q = space(in, {x.size(-2), k}), r = space(in, {k, x.size(-1)});
  kernels::qr(stream_of(in), op, q, r, in);
  return back(x, std::tuple(q, r));
}

std::tuple<Tensor, Tensor> eigh(const char* op, T x) {
  const Tensor in = batch_of(x, op);
  if (on_device::takes(in)) return back(x, on_device::eigh(op, in));
  const Tensor values = space(in, {x.size(-1)}), vectors = empty_like(in);
  kernels::eigh(stream_of(in), op, values, vectors, in);
  return back(x, std::tuple(values, vectors));
}

std::tuple<Tensor, Tensor, Tensor> svd(const char* op, T x, bool full) {
  const Tensor in = batch_of(x, op);
  if (on_device::takes(in)) return back(x, on_device::svd(op, in, full));
  const std::int64_t m = x.size(-2), n = x.size(-1), k = std::min(m, n);
  const Tensor u = space(in, {m, full ? m : k}), s = space(in, {k}),
               vh = space(in, {full ? n : k, n});
  kernels::svd(stream_of(in), op, u, s, vh, in);
  return back(x, std::tuple(u, s, vh));
}

}  // namespace ferrite::ops::factors
