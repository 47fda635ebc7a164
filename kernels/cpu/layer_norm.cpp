#include <cmath>

#include "ferrite/kernels/cpu/channel_loops.h"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cpu {

namespace {

/// A row as the only channel of its own.
template <class S>
RunsPart<S> row_part(std::int64_t row, std::int64_t width) {
  return {{.outer = row + 1, .channels = 1, .inner = width}, 0, row * width, (row + 1) * width};
}

std::int64_t row_grain(std::int64_t width) { return std::max<std::int64_t>(1, 16384 / width); }

/// Gradients of weight and bias: sums over the rows, first of some, then of all, in that order
/// whatever the threads do.
template <class T>
void sum_rows(std::int64_t rows, std::int64_t width, const View& grad_weight, const View& grad_bias,
              const T* dy, const T* x, const Compute<T>* mean, const Compute<T>* rstd) {
  using S = Compute<T>;
  const std::int64_t step = std::clamp<std::int64_t>(65536 / width, 64, 512);
  const std::int64_t parts = (rows + step - 1) / step;
  std::vector<S> partial(static_cast<std::size_t>(2 * parts * width));
  S* by_weight = partial.data();
  S* by_bias = by_weight + parts * width;
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      for_blocks(0, width, [&](std::int64_t i, auto lanes) {
        Lanes<S, lanes> w{}, b{};
        for (std::int64_t r = p * step; r < std::min(rows, (p + 1) * step); ++r) {
          const auto g = load<lanes>(dy + r * width + i);
          b += g;
          w += g * ((load<lanes>(x + r * width + i) - (mean ? mean[r] : S(0))) * rstd[r]);
        }
        store<lanes>(by_weight + p * width + i, w);
        store<lanes>(by_bias + p * width + i, b);
      });
  });
  const auto finish = [&](const View& out, const S* values) {
    if (!out.data) return;
    parallel_for(width, row_grain(parts + 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        double sum = 0;
        for (std::int64_t p = 0; p < parts; ++p) sum += static_cast<double>(values[p * width + i]);
        out.as<S>()[i] = static_cast<S>(sum);
      }
    });
  };
  finish(grad_weight, by_weight);
  finish(grad_bias, by_bias);
}

}  // namespace

void layer_norm(std::int64_t rows, std::int64_t width, const View& out, const View& mean,
                const View& rstd, const View& in, const View& weight, const View& bias,
                double eps) {
  dispatch_floating(in.dtype, "layer_norm", [&]<class T>() {
    using S = Compute<T>;
    const T* x = in.as<T>();
    T* y = out.as<T>();
    const S* w = weight.as<S>();
    const S* b = bias.as<S>();
    parallel_for(rows, row_grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const auto part = row_part<S>(r, width);
        const S n = part.count();
        S first = 0;
        if (mean.data)
          first = part.template sums<1>([&](auto lanes, int, std::int64_t at, auto& sums) {
            sums[0] += load<lanes>(x + at);
          })[0][0] /
                  n;
        // The second sum corrects the first one's rounding (Chan, Golub and LeVeque 1983).
        const auto d = part.template sums<2>([&](auto lanes, int, std::int64_t at, auto& sums) {
          const auto v = load<lanes>(x + at) - first;
          sums[0] += v;
          sums[1] += v * v;
        })[0];
        const S off = mean.data ? d[0] / n : S(0), m = first + off;
        const double var = static_cast<double>(d[1] - d[0] * off) / static_cast<double>(n);
        const S s = static_cast<S>(1 / std::sqrt(std::max(var, 0.0) + eps));
        if (mean.data) mean.as<S>()[r] = m;
        rstd.as<S>()[r] = s;
        const T* from = x + r * width;
        T* to = y + r * width;
        for_blocks(0, width, [&](std::int64_t i, auto lanes) {
          auto v = (load<lanes>(from + i) - m) * s;
          if (w) v *= load<lanes>(w + i);
          if (b) v += load<lanes>(b + i);
          store<lanes>(to + i, v);
        });
      }
    });
  });
}

void layer_norm_backward(std::int64_t rows, std::int64_t width, const View& grad_in,
                         const View& grad_weight, const View& grad_bias, const View& grad_out,
                         const View& in, const View& mean, const View& rstd, const View& weight) {
  dispatch_floating(in.dtype, "layer_norm", [&]<class T>() {
    using S = Compute<T>;
    const T* x = in.as<T>();
    const T* dy = grad_out.as<T>();
    const S* means = mean.as<S>();
    const S* rstds = rstd.as<S>();
    const S* w = weight.as<S>();
    if (grad_weight.data || grad_bias.data)
      sum_rows(rows, width, grad_weight, grad_bias, dy, x, means, rstds);
    if (!grad_in.data) return;
    T* dx = grad_in.as<T>();
    parallel_for(rows, row_grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const S m = means ? means[r] : S(0), s = rstds[r];
        const std::int64_t row = r * width;
        // dy * weight, the gradient of the normalised values.
        const auto gradient = [&](auto lanes, std::int64_t at) {
          auto g = load<lanes>(dy + at);
          if (w) g *= load<lanes>(w + (at - row));
          return g;
        };
        const auto part = row_part<S>(r, width);
        const auto sums = part.template sums<2>([&](auto lanes, int, std::int64_t at, auto& sums) {
          const auto g = gradient(lanes, at);
          sums[0] += g;
          sums[1] += g * ((load<lanes>(x + at) - m) * s);
        })[0];
        const S shift = means ? sums[0] / part.count() : S(0), slope = sums[1] / part.count();
        for_blocks(0, width, [&](std::int64_t i, auto lanes) {
          const auto xhat = (load<lanes>(x + row + i) - m) * s;
          store<lanes>(dx + row + i, (gradient(lanes, row + i) - shift - xhat * slope) * s);
        });
      }
    });
  });
}

}  // namespace ferrite::kernels::cpu
