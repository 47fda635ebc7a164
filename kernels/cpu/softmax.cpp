#include "ferrite/kernels/softmax.h"

#include <cmath>
#include <limits>

#include "ferrite/kernels/cpu/axis_loop.h"
#include "ferrite/kernels/cpu/simd_math.h"

namespace ferrite::kernels::cpu {

namespace {

template <class E>
void exp_of(const E* x, E* y, std::int64_t n) {
  simd::transform(
      y, n, [](const auto& v) { return simd::exp(v); }, x);
}

/// The first `count` lanes; the others are 0.
template <class E>
Vector<E> first_lanes(const Vector<E>& v, std::int64_t count) {
  Lanes<MaskOf<E>, kLanes<E>> lane;
  for (int i = 0; i < kLanes<E>; ++i) lane[i] = i;
  return lane < static_cast<MaskOf<E>>(count) ? v : Vector<E>{};
}

template <class E, bool kStores>
E sum_of_exp(const E* x, E shift, std::int64_t n, E* y) {
  Vector<E> sum{};
  std::int64_t i = 0;
  for (; i + kLanes<E> <= n; i += kLanes<E>) {
    const Vector<E> e = simd::exp(load(x + i) - shift);
    if constexpr (kStores) store(y + i, e);
    sum += e;
  }
  if (i < n) {
    const Vector<E> e = simd::exp(load_partial(x + i, n - i) - shift);
    if constexpr (kStores) store_partial(y + i, e, n - i);
    sum += first_lanes<E>(e, n - i);
  }
  return sum_lanes<E>(sum);
}

}  // namespace

void exp_run(const float* x, float* y, std::int64_t n) { exp_of(x, y, n); }
void exp_run(const double* x, double* y, std::int64_t n) { exp_of(x, y, n); }
float exp_sum(const float* x, float shift, std::int64_t n, float* y) {
  return y ? sum_of_exp<float, true>(x, shift, n, y) : sum_of_exp<float, false>(x, shift, n, y);
}
double exp_sum(const double* x, double shift, std::int64_t n, double* y) {
  return y ? sum_of_exp<double, true>(x, shift, n, y) : sum_of_exp<double, false>(x, shift, n, y);
}

namespace {

template <class E>
class Softmax {
 public:
  Softmax(SoftmaxKind kind, const View& out, const View& in, int dim)
      : log_(kind == SoftmaxKind::log),
        loop_(in, one_position(in, dim)),
        in_(in.data, in.dtype),
        out_(out.data, out.dtype) {}

  void run() const {
    loop_.run([&](auto, std::int64_t at, auto, std::int64_t n) {
      loop_.rows() ? rows(at, n) : columns(at, n);
    });
  }

 private:
  /// Rows of neighbours, in pieces of at most a block: for all but long ones one piece each.
  void rows(std::int64_t at, std::int64_t n) const {
    const std::int64_t c = loop_.size;
    E buffer[kAxisBlock], results[kAxisBlock];
    if (c > kAxisBlock) return long_row(at, buffer, results);
    const E* x = in_.read(at, 1, n * c, buffer);
    E* const y = out_.begin(at, results);
    for (std::int64_t r = 0; r < n; ++r) {
      const E top = largest(x + r * c, c);
      const E sum = exp_sum(x + r * c, top, c, log_ ? nullptr : y + r * c);
      finish(x + r * c, top, sum, y + r * c, c);
    }
    out_.end(at, y, n * c);
  }
  /// The results, from log softmax's x or softmax's exponentials in y.
  void finish(const E* x, E top, E sum, E* y, std::int64_t n) const {
    if (log_) {
      const E shift = std::log(sum);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - top) - shift;
    } else {
      const E scale = 1 / sum;
      for (std::int64_t i = 0; i < n; ++i) y[i] *= scale;
    }
  }

  void long_row(std::int64_t at, E* buffer, E* results) const {
    const auto pieces = [&](auto&& body) {
      for (std::int64_t i = 0; i < loop_.size; i += kAxisBlock) {
        const std::int64_t n = std::min(kAxisBlock, loop_.size - i);
        body(at + i, in_.read(at + i, 1, n, buffer), n);
      }
    };
    E top = -std::numeric_limits<E>::infinity();
    double sum = 0;
    pieces([&](auto, const E* x, std::int64_t n) { top = greater(top, largest(x, n)); });
    pieces(
        [&](auto, const E* x, std::int64_t n) { sum += static_cast<double>(exp_sum(x, top, n)); });
    pieces([&](std::int64_t to, const E* x, std::int64_t n) {
      E* const y = out_.begin(to, results);
      if (!log_) exp_sum(x, top, n, y);
      finish(x, top, static_cast<E>(sum), y, n);
      out_.end(to, y, n);
    });
  }

  /// Narrow columns without gaps are taken several rows at a time, as one wide row; the lanes that
  /// belong to one column are then folded.
  void columns(std::int64_t at, std::int64_t n) const {
    const std::int64_t wide = loop_.stride == n ? kAxisBlock / n : 1, width = wide * n;
    E top[kAxisBlock], sum[kAxisBlock], e[kAxisBlock];
    std::fill_n(top, width, -std::numeric_limits<E>::infinity());
    std::fill_n(sum, width, E(0));
    each_row(at, n, wide, [&](auto, const E* x, std::int64_t m) {
      for (std::int64_t j = 0; j < m; ++j) top[j] = greater(top[j], x[j]);
    });
    fold(top, n, width, [](E a, E b) { return greater(a, b); });
    each_row(at, n, wide, [&](auto, const E* x, std::int64_t m) {
      for (std::int64_t j = 0; j < m; ++j) e[j] = x[j] - top[j];
      exp_run(e, e, m);
      for (std::int64_t j = 0; j < m; ++j) sum[j] += e[j];
    });
    fold(sum, n, width, [](E a, E b) { return a + b; });
    for (std::int64_t j = 0; j < width; ++j) sum[j] = log_ ? std::log(sum[j]) : 1 / sum[j];
    each_row(at, n, wide, [&](std::int64_t to, const E* x, std::int64_t m) {
      E* const y = out_.begin(to, e);
#pragma GCC ivdep
      for (std::int64_t j = 0; j < m; ++j) y[j] = x[j] - top[j];
      if (log_) {
        for (std::int64_t j = 0; j < m; ++j) y[j] -= sum[j];
      } else {
        exp_run(y, y, m);
        for (std::int64_t j = 0; j < m; ++j) y[j] *= sum[j];
      }
      out_.end(to, y, m);
    });
  }
  /// Calls body(offset, x, length) for `wide` rows of n columns at a time.
  template <class Body>
  void each_row(std::int64_t at, std::int64_t n, std::int64_t wide, Body&& body) const {
    E buffer[kAxisBlock];
    for (std::int64_t c = 0; c < loop_.size; c += wide, at += wide * loop_.stride) {
      const std::int64_t m = std::min(wide, loop_.size - c) * n;
      body(at, in_.read(at, 1, m, buffer), m);
    }
  }
  /// Gives every lane the result of its column.
  template <class F>
  static void fold(E* lanes, std::int64_t n, std::int64_t width, F f) {
    for (std::int64_t j = n; j < width; ++j) lanes[j % n] = f(lanes[j % n], lanes[j]);
    for (std::int64_t j = n; j < width; ++j) lanes[j] = lanes[j % n];
  }

  bool log_;
  AxisLoop loop_;
  RunReader<E> in_;
  RunWriter<E> out_;
};

/// softmax: y (g - sum(g y)); log_softmax: g - exp(y) sum(g).
template <class E>
class SoftmaxBackward {
 public:
  SoftmaxBackward(SoftmaxKind kind, const View& out, const View& grad, const View& y, int dim)
      : log_(kind == SoftmaxKind::log),
        loop_(y, one_position(y, dim)),
        grad_(grad.data, grad.dtype),
        y_(y.data, y.dtype),
        out_(out.data, out.dtype) {}

  void run() const {
    loop_.run([&](auto, std::int64_t at, auto, std::int64_t n) {
      loop_.rows() ? rows(at, n) : columns(at, n);
    });
  }

 private:
  /// Calls body(f), where f(g, y, sum of the terms) is the gradient.
  template <class Body>
  void with_gradient(Body&& body) const {
    if (log_)
      body([](const auto& g, const auto& y, const auto& sum) { return g - simd::exp(y) * sum; });
    else
      body([](const auto& g, const auto& y, const auto& sum) { return y * (g - sum); });
  }
  /// Of n elements of a row.
  void finish(const E* g, const E* y, E sum, E* to, std::int64_t n) const {
    with_gradient([&](auto gradient) {
      simd::transform(
          to, n, [&](const auto& g, const auto& y) { return gradient(g, y, sum); }, g, y);
    });
  }
  E term(E g, E y) const { return log_ ? g : g * y; }
  E sum_of_terms(const E* g, const E* y, std::int64_t n) const {
    if (log_) return sum_of(g, n);
    E terms[kAxisBlock];
    for (std::int64_t i = 0; i < n; ++i) terms[i] = g[i] * y[i];
    return sum_of(terms, n);
  }

  void rows(std::int64_t at, std::int64_t n) const {
    const std::int64_t c = loop_.size;
    E grads[kAxisBlock], ys[kAxisBlock], results[kAxisBlock];
    if (c > kAxisBlock) return long_row(at, grads, ys, results);
    const E* g = grad_.read(at, 1, n * c, grads);
    const E* y = y_.read(at, 1, n * c, ys);
    E* const to = out_.begin(at, results);
    for (std::int64_t r = 0; r < n * c; r += c)
      finish(g + r, y + r, sum_of_terms(g + r, y + r, c), to + r, c);
    out_.end(at, to, n * c);
  }

  void long_row(std::int64_t at, E* grads, E* ys, E* results) const {
    const auto pieces = [&](auto&& body) {
      for (std::int64_t i = 0; i < loop_.size; i += kAxisBlock) {
        const std::int64_t n = std::min(kAxisBlock, loop_.size - i);
        body(at + i, grad_.read(at + i, 1, n, grads), y_.read(at + i, 1, n, ys), n);
      }
    };
    double sum = 0;
    pieces([&](auto, const E* g, const E* y, std::int64_t n) {
      sum += static_cast<double>(sum_of_terms(g, y, n));
    });
    pieces([&](std::int64_t from, const E* g, const E* y, std::int64_t n) {
      E* const to = out_.begin(from, results);
      finish(g, y, static_cast<E>(sum), to, n);
      out_.end(from, to, n);
    });
  }

  void columns(std::int64_t at, std::int64_t n) const {
    E grads[kAxisColumns], ys[kAxisColumns], results[kAxisColumns], sum[kAxisColumns] = {};
    for (std::int64_t c = 0; c < loop_.size; ++c) {
      const std::int64_t from = at + c * loop_.stride;
      const E* g = grad_.read(from, 1, n, grads);
      const E* y = y_.read(from, 1, n, ys);
      for (std::int64_t j = 0; j < n; ++j) sum[j] += term(g[j], y[j]);
    }
    for (std::int64_t c = 0; c < loop_.size; ++c) {
      const std::int64_t from = at + c * loop_.stride;
      E* const to = out_.begin(from, results);
      with_gradient([&](auto gradient) {
        simd::transform(to, n, gradient, grad_.read(from, 1, n, grads), y_.read(from, 1, n, ys),
                        static_cast<const E*>(sum));
      });
      out_.end(from, to, n);
    }
  }

  bool log_;
  AxisLoop loop_;
  RunReader<E> grad_, y_;
  RunWriter<E> out_;
};

}  // namespace

void softmax(SoftmaxKind kind, const View& out, const View& in, int dim) {
  if (in.numel == 0) return;
  in.dtype == kFloat64 ? Softmax<double>(kind, out, in, dim).run()
                       : Softmax<float>(kind, out, in, dim).run();
}

void softmax_backward(SoftmaxKind kind, const View& out, const View& grad, const View& y, int dim) {
  if (y.numel == 0) return;
  y.dtype == kFloat64 ? SoftmaxBackward<double>(kind, out, grad, y, dim).run()
                      : SoftmaxBackward<float>(kind, out, grad, y, dim).run();
}

}  // namespace ferrite::kernels::cpu
