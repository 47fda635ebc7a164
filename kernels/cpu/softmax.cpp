#include "ferrite/kernels/softmax.h"

#include <Eigen/Core>
#include <cmath>

#include "ferrite/kernels/cpu/axis_loop.h"

namespace ferrite::kernels::cpu {

void exp_run(const float* x, float* y, std::int64_t n) {
  // Eigen clamps what would fall below the normal range instead of letting it vanish.
  constexpr float kLowest = -87.33654f;
  float block[kAxisBlock];
  for (std::int64_t i = 0; i < n; i += kAxisBlock) {
    const std::int64_t m = std::min(kAxisBlock, n - i), whole = m / 16 * 16;
    Eigen::Map<Eigen::ArrayXf>(block, whole) = Eigen::Map<const Eigen::ArrayXf>(x + i, whole).exp();
    if (whole < m) {  // the rest as a whole packet, too
      Eigen::Array<float, 16, 1> rest = Eigen::Array<float, 16, 1>::Zero();
      std::copy_n(x + i + whole, m - whole, rest.data());
      rest = rest.exp().eval();
      std::copy_n(rest.data(), m - whole, block + whole);
    }
    for (std::int64_t j = 0; j < m; ++j)
      y[i + j] = x[i + j] != x[i + j] ? x[i + j] : x[i + j] < kLowest ? 0.0f : block[j];
  }
}

void exp_run(const double* x, double* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = std::exp(x[i]);
}

namespace {

template <class E>
class Softmax {
 public:
  Softmax(SoftmaxKind kind, const View& out, const View& in, int dim)
      : log_(kind == SoftmaxKind::log),
        loop_(in, one_position(in, dim)),
        in_(in.data, in.dtype),
        out_(out) {}

  void run() const {
    loop_.run([&](auto, std::int64_t at, auto, std::int64_t n) {
      if (!loop_.rows())
        columns(at, n);
      else if (loop_.size <= kAxisBlock)
        short_rows(at, n);
      else
        long_row(at);
    });
  }

 private:
  void store(std::int64_t at, const E* x, std::int64_t n) const {
    store_run(out_.as<char>() + at * static_cast<std::int64_t>(itemsize(out_.dtype)), out_.dtype, 1,
              x, n);
  }

  /// One call of exp for several rows: rows of ten classes are shorter than a vector.
  void short_rows(std::int64_t at, std::int64_t n) const {
    const std::int64_t c = loop_.size;
    E buffer[kAxisBlock], shifted[kAxisBlock], e[kAxisBlock];
    const E* x = in_.read(at, 1, n * c, buffer);
    for (std::int64_t r = 0; r < n; ++r) {
      const E top = largest(x + r * c, c);
      for (std::int64_t i = 0; i < c; ++i) shifted[r * c + i] = x[r * c + i] - top;
    }
    exp_run(shifted, e, n * c);
    for (std::int64_t r = 0; r < n; ++r) {
      const E sum = sum_of(e + r * c, c);
      if (log_) {
        const E shift = std::log(sum);
        for (std::int64_t i = 0; i < c; ++i) e[r * c + i] = shifted[r * c + i] - shift;
      } else {
        const E scale = 1 / sum;
        for (std::int64_t i = 0; i < c; ++i) e[r * c + i] *= scale;
      }
    }
    store(at, e, n * c);
  }

  /// Calls body(offset, x, n) for the pieces of a row.
  template <class Body>
  void pieces(std::int64_t at, Body&& body) const {
    E buffer[kAxisBlock];
    for (std::int64_t i = 0; i < loop_.size; i += kAxisBlock) {
      const std::int64_t n = std::min(kAxisBlock, loop_.size - i);
      body(at + i, in_.read(at + i, 1, n, buffer), n);
    }
  }

  void long_row(std::int64_t at) const {
    E top = -std::numeric_limits<E>::infinity();
    double sum = 0;
    E e[kAxisBlock];
    pieces(at, [&](auto, const E* x, std::int64_t n) { top = greater(top, largest(x, n)); });
    pieces(at, [&](auto, const E* x, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) e[i] = x[i] - top;
      exp_run(e, e, n);
      sum += static_cast<double>(sum_of(e, n));
    });
    const E shift = static_cast<E>(std::log(sum)), scale = static_cast<E>(1 / sum);
    pieces(at, [&](std::int64_t to, const E* x, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) e[i] = x[i] - top;
      if (log_) {
        for (std::int64_t i = 0; i < n; ++i) e[i] -= shift;
      } else {
        exp_run(e, e, n);
        for (std::int64_t i = 0; i < n; ++i) e[i] *= scale;
      }
      store(to, e, n);
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
      for (std::int64_t j = 0; j < m; ++j) e[j] = x[j] - top[j];
      if (log_) {
        for (std::int64_t j = 0; j < m; ++j) e[j] -= sum[j];
      } else {
        exp_run(e, e, m);
        for (std::int64_t j = 0; j < m; ++j) e[j] *= sum[j];
      }
      store(to, e, m);
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
  View out_;
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
        out_(out) {}

  void run() const {
    loop_.run([&](auto, std::int64_t at, auto, std::int64_t n) {
      loop_.rows() ? rows(at, n) : columns(at, n);
    });
  }

 private:
  /// Writes the gradient of n elements that share `sum`, or have one each.
  void finish(std::int64_t at, const E* g, const E* y, const E* sum, std::int64_t sum_step,
              std::int64_t n) const {
    E result[kAxisBlock];
    if (log_) {
      exp_run(y, result, n);
      for (std::int64_t i = 0; i < n; ++i) result[i] = g[i] - result[i] * sum[i * sum_step];
    } else {
      for (std::int64_t i = 0; i < n; ++i) result[i] = y[i] * (g[i] - sum[i * sum_step]);
    }
    store_run(out_.as<char>() + at * static_cast<std::int64_t>(itemsize(out_.dtype)), out_.dtype, 1,
              result, n);
  }
  E term(E g, E y) const { return log_ ? g : g * y; }

  void rows(std::int64_t at, std::int64_t n) const {
    const std::int64_t c = loop_.size;
    E grads[kAxisBlock], ys[kAxisBlock], terms[kAxisBlock];
    if (c > kAxisBlock) return long_row(at);
    const E* g = grad_.read(at, 1, n * c, grads);
    const E* y = y_.read(at, 1, n * c, ys);
    for (std::int64_t i = 0; i < n * c; ++i) terms[i] = term(g[i], y[i]);
    for (std::int64_t r = 0; r < n; ++r) std::fill_n(terms + r * c, c, sum_of(terms + r * c, c));
    finish(at, g, y, terms, 1, n * c);
  }

  void long_row(std::int64_t at) const {
    E grads[kAxisBlock], ys[kAxisBlock], terms[kAxisBlock];
    double total = 0;
    for (std::int64_t i = 0; i < loop_.size; i += kAxisBlock) {
      const std::int64_t n = std::min(kAxisBlock, loop_.size - i);
      const E* g = grad_.read(at + i, 1, n, grads);
      const E* y = y_.read(at + i, 1, n, ys);
      for (std::int64_t j = 0; j < n; ++j) terms[j] = term(g[j], y[j]);
      total += static_cast<double>(sum_of(terms, n));
    }
    const E sum = static_cast<E>(total);
    for (std::int64_t i = 0; i < loop_.size; i += kAxisBlock) {
      const std::int64_t n = std::min(kAxisBlock, loop_.size - i);
      finish(at + i, grad_.read(at + i, 1, n, grads), y_.read(at + i, 1, n, ys), &sum, 0, n);
    }
  }

  void columns(std::int64_t at, std::int64_t n) const {
    E grads[kAxisColumns], ys[kAxisColumns], sum[kAxisColumns] = {};
    for (std::int64_t c = 0; c < loop_.size; ++c) {
      const std::int64_t from = at + c * loop_.stride;
      const E* g = grad_.read(from, 1, n, grads);
      const E* y = y_.read(from, 1, n, ys);
      for (std::int64_t j = 0; j < n; ++j) sum[j] += term(g[j], y[j]);
    }
    for (std::int64_t c = 0; c < loop_.size; ++c) {
      const std::int64_t from = at + c * loop_.stride;
      finish(from, grad_.read(from, 1, n, grads), y_.read(from, 1, n, ys), sum, 1, n);
    }
  }

  bool log_;
  AxisLoop loop_;
  RunReader<E> grad_, y_;
  View out_;
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
