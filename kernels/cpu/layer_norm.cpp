#include "ferrite/kernels/cpu/row_moments.h"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cpu {

namespace {

/// All gradients in one pass: a row of the input's gradient and the row's share of the sums, while
/// it is in a near cache. The gradients of weight and bias are sums over the rows, first of some,
/// then of all, in that order whatever the threads do.
template <class T>
class Gradients {
  using S = Compute<T>;

 public:
  Gradients(std::int64_t rows, std::int64_t width, const View& grad_in, const View& grad_out,
            const View& in, const View& mean, const View& rstd, const View& weight)
      : rows_(rows),
        width_(width),
        dx_(grad_in.as<T>()),
        dy_(grad_out.as<T>()),
        x_(in.as<T>()),
        mean_(mean.as<S>()),
        rstd_(rstd.as<S>()),
        weight_(weight.as<S>()) {}

  void run(const View& grad_weight, const View& grad_bias) const {
    const bool sums = grad_weight.data || grad_bias.data;
    const std::int64_t step = std::clamp<std::int64_t>(32768 / width_, kGroup, 256);
    const std::int64_t parts = (rows_ + step - 1) / step;
    std::vector<S> partial(sums ? static_cast<std::size_t>(2 * parts * width_) : 0);
    S* const by_weight = partial.data();
    S* const by_bias = by_weight + parts * width_;
    parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p)
        for (std::int64_t r = p * step; r < std::min(rows_, (p + 1) * step); r += kGroup) {
          const std::int64_t last = std::min({rows_, (p + 1) * step, r + kGroup});
          if (dx_)
            for (std::int64_t row = r; row < last; ++row) input_gradient(row);
          if (sums) add_rows(r, last, by_weight + p * width_, by_bias + p * width_);
        }
    });
    if (grad_weight.data) finish(grad_weight, by_weight, parts);
    if (grad_bias.data) finish(grad_bias, by_bias, parts);
  }

 private:
  static constexpr std::int64_t kGroup = 16;  // rows at a time

  void input_gradient(std::int64_t r) const {
    const S m = mean_ ? mean_[r] : S(0), s = rstd_[r];
    const std::int64_t row = r * width_;
    // dy * weight, the gradient of the normalised values.
    const auto gradient = [&](auto lanes, std::int64_t at) {
      auto g = load<lanes>(dy_ + at);
      if (weight_) g *= load<lanes>(weight_ + (at - row));
      return g;
    };
    const auto part = row_part<S>(r, width_);
    const auto sums = part.template sums<2>([&](auto lanes, int, std::int64_t at, auto& sums) {
      const auto g = gradient(lanes, at);
      sums[0] += g;
      sums[1] += g * ((load<lanes>(x_ + at) - m) * s);
    })[0];
    const S shift = mean_ ? sums[0] / part.count() : S(0), slope = sums[1] / part.count();
    for_blocks(0, width_, [&](std::int64_t i, auto lanes) {
      const auto xhat = (load<lanes>(x_ + row + i) - m) * s;
      store<lanes>(dx_ + row + i, (gradient(lanes, row + i) - shift - xhat * slope) * s);
    });
  }

  void add_rows(std::int64_t first, std::int64_t last, S* by_weight, S* by_bias) const {
    const auto add = [&](std::int64_t i, auto lanes) {
      Lanes<S, lanes> w{}, b{};
      for (std::int64_t r = first; r < last; ++r) {
        const auto g = load<lanes>(dy_ + r * width_ + i);
        b += g;
        w += g * ((load<lanes>(x_ + r * width_ + i) - (mean_ ? mean_[r] : S(0))) * rstd_[r]);
      }
      store<lanes>(by_weight + i, load<lanes>(by_weight + i) + w);
      store<lanes>(by_bias + i, load<lanes>(by_bias + i) + b);
    };
    std::int64_t i = 0;
    for (; i + kWide <= width_; i += kWide) add(i, std::integral_constant<int, kWide>());
    for (; i < width_; ++i) add(i, std::integral_constant<int, 1>());
  }

  void finish(const View& out, const S* values, std::int64_t parts) const {
    parallel_for(width_, row_grain(parts + 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        double sum = 0;
        for (std::int64_t p = 0; p < parts; ++p) sum += static_cast<double>(values[p * width_ + i]);
        out.as<S>()[i] = static_cast<S>(sum);
      }
    });
  }

  std::int64_t rows_, width_;
  T* dx_;
  const T *dy_, *x_;
  const S *mean_, *rstd_, *weight_;
};

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
        const auto [m, s] = row_moments(x, r, width, eps, mean.data != nullptr);
        if (mean.data) mean.as<S>()[r] = m;
        rstd.as<S>()[r] = s;
        const T* from = x + r * width;
        T* to = y + r * width;
        for_blocks(0, width, [&, m = m, s = s](std::int64_t i, auto lanes) {
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
    Gradients<T>(rows, width, grad_in, grad_out, in, mean, rstd, weight)
        .run(grad_weight, grad_bias);
  });
}

}  // namespace ferrite::kernels::cpu
