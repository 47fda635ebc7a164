#include <cmath>
#include <cstring>

#include "ferrite/kernels/cpu/batch_norm_terms.h"
#include "ferrite/kernels/cpu/channel_loops.h"
#include "ferrite/kernels/cpu/pool_loops.h"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cpu {

namespace {

/// The number of values a channel, which may have been computed on the device.
double count_of(const View& count, std::int64_t n) {
  if (!count.data) return static_cast<double>(n);
  return count.dtype == kFloat64 ? *count.as<double>() : static_cast<double>(*count.as<float>());
}

/// The gradient behind a ReLU, at W elements.
template <class T>
struct Gate {
  using S = Compute<T>;
  ReluMask::From from;
  const T* out;

  explicit Gate(const ReluMask& mask) : from(mask.from), out(mask.out.as<T>()) {}

  template <int W, class P>
  Lanes<S, W> operator()(std::int64_t at, const Lanes<S, W>& g, const Lanes<S, W>& deviation,
                         const P& scale, const P& shift) const {
    if (from == ReluMask::From::nothing) return g;
    if (from == ReluMask::From::output) return pass(g, load<W>(out + at));
    // A small result may have become 0.
    return pass(g, rounded<T, W>(affine(deviation, scale, shift)));
  }
};

/// Mean and M2 of parts with `size(p)`, mean(p) and m2(p).
struct Moments {
  double count = 0, mean = 0, m2 = 0;

  template <class Size, class Mean, class M2>
  Moments(std::int64_t parts, Size&& size, Mean&& part_mean, M2&& part_m2) {
    for (std::int64_t p = 0; p < parts; ++p) {
      count += size(p);
      mean += size(p) * part_mean(p);
    }
    if (count == 0) {
      mean = 0;
      return;
    }
    mean /= count;
    for (std::int64_t p = 0; p < parts; ++p) {
      const double d = part_mean(p) - mean;
      m2 += (size(p) > 0 ? part_m2(p) : 0) + size(p) * d * d;
    }
  }
};

}  // namespace

void channel_stats(const ChannelLayout& layout, const View& mean, const View& m2, const View& in) {
  dispatch_floating(in.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    const std::int64_t channels = layout.channels;
    const Scratch<double> totals(2 * channels);
    double *const means = totals.data(), *const m2s = means + channels;
    channel_moments(layout, in.as<T>(), means, m2s);
    std::copy_n(means, channels, mean.as<S>());
    std::copy_n(m2s, channels, m2.as<S>());
  });
}

void combine_stats(const View& mean, const View& m2, const View& count, const View& means,
                   const View& m2s, const View& counts) {
  dispatch_types<float, double>(mean.dtype, "batch_norm", [&]<class S>() {
    const std::int64_t channels = mean.numel, parts = counts.numel;
    const auto n = [&](std::int64_t p) {
      return static_cast<double>(counts.as<S>()[p * counts.strides[0]]);
    };
    double total = 0;
    for (std::int64_t p = 0; p < parts; ++p) total += n(p);
    *count.as<S>() = static_cast<S>(total);
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto of = [&](const View& v, std::int64_t p) {
        return static_cast<double>(v.as<S>()[p * v.strides[0] + c]);
      };
      const Moments all(
          parts, n, [&](std::int64_t p) { return n(p) > 0 ? of(means, p) : 0; },
          [&](std::int64_t p) { return of(m2s, p); });
      mean.as<S>()[c] = static_cast<S>(all.mean);
      m2.as<S>()[c] = static_cast<S>(all.m2);
    }
  });
}

void stats_of_sums(const View& mean, const View& m2, std::int64_t n) {
  dispatch_types<float, double>(mean.dtype, "batch_norm", [&]<class S>() {
    for (std::int64_t c = 0; c < mean.numel; ++c) {
      const double sum = static_cast<double>(mean.as<S>()[c]);
      const double average = n > 0 ? sum / static_cast<double>(n) : 0;
      const double deviations = static_cast<double>(m2.as<S>()[c]) - sum * average;
      mean.as<S>()[c] = static_cast<S>(average);
      m2.as<S>()[c] = static_cast<S>(deviations < 0 ? 0 : deviations);  // NaN stays
    }
  });
}

void batch_norm_finish(const View& invstd, const View& running_mean, const View& running_var,
                       const View& mean, const View& m2, const View& count, std::int64_t n,
                       double momentum, double eps) {
  const double values = count_of(count, n);
  dispatch_types<float, double>(mean.dtype, "batch_norm", [&]<class S>() {
    for (std::int64_t c = 0; c < mean.numel; ++c) {
      const double var = values > 0 ? static_cast<double>(m2.as<S>()[c]) / values : 0;
      invstd.as<S>()[c] = static_cast<S>(1 / std::sqrt(var + eps));
    }
    if (!running_mean.data || values <= 1) return;
    dispatch_floating(running_mean.dtype, "batch_norm", [&]<class R>() {
      const auto move = [&](const View& running, std::int64_t c, double to) {
        R& r = running.as<R>()[c * running.strides[0]];
        r = static_cast<R>(static_cast<Compute<R>>(
            (1 - momentum) * static_cast<double>(static_cast<Compute<R>>(r)) + momentum * to));
      };
      for (std::int64_t c = 0; c < mean.numel; ++c) {
        move(running_mean, c, static_cast<double>(mean.as<S>()[c]));
        move(running_var, c, static_cast<double>(m2.as<S>()[c]) / (values - 1));
      }
    });
  });
}

void inverse_std(const View& invstd, const View& var, double eps) {
  dispatch_types<float, double>(var.dtype, "batch_norm", [&]<class S>() {
    for (std::int64_t c = 0; c < var.numel; ++c)
      invstd.as<S>()[c] = static_cast<S>(1 / std::sqrt(static_cast<double>(var.as<S>()[c]) + eps));
  });
}

void batch_norm_apply(const ChannelLayout& layout, const View& out, const View& in,
                      const View& mean, const View& invstd, const View& weight, const View& bias,
                      const View& residual, NormActivation activation) {
  dispatch_floating(in.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    const T* x = in.as<T>();
    const T* r = residual.as<T>();
    T* y = out.as<T>();
    const S* means = mean.as<S>();
    const bool relu = activation == NormActivation::relu;
    const std::vector<S> scales = scales_of<S>(weight, invstd, layout.channels);
    const std::vector<S> shifts = values_of<S>(bias, layout.channels, 0);
    // Loops of their own: in NHWC, batch norm alone takes a fifth longer for being asked at each
    // step.
    either(!r && !relu, [&](auto plain) {
      for_each_channel_run<S>(layout, [&](auto&& param, auto&& loop) {
        const auto m = param(means), scale = param(scales.data()), shift = param(shifts.data());
        loop([&](auto width, std::int64_t at, std::int64_t c) {
          Lanes<S, width> v =
              affine(load<width>(x + at) - m(width, c), scale(width, c), shift(width, c));
          if (!plain && r) v += load<width>(r + at);
          if (!plain && relu) v = v < 0 ? Lanes<S, width>{} : v;
          store<width>(y + at, v);
        });
      });
    });
  });
}

void batch_norm_train(const ChannelLayout& layout, const View& out, const View& in,
                      const View& mean, const View& invstd, const BatchStatistics& batch,
                      const RunningStatistics& running, double eps, const View& weight,
                      const View& bias, const View& residual, NormActivation activation,
                      const View& counters) {
  const std::size_t bytes = index(mean.numel) * itemsize(mean.dtype);
  if (bytes > 0 && mean.data != batch.mean.data) std::memcpy(mean.data, batch.mean.data, bytes);
  View m2 = batch.m2;
  std::vector<double> own(batch.are_sums ? bytes / sizeof(double) + 1 : 0);
  if (batch.are_sums && bytes > 0) {
    m2.data = own.data();
    std::memcpy(m2.data, batch.m2.data, bytes);
    stats_of_sums(mean, m2, layout.count());
  }
  batch_norm_finish(invstd, running.mean, running.var, mean, m2, View(), layout.count(),
                    running.momentum, eps);
  if (running.batches.data) ++*running.batches.as<std::int64_t>();
  if (counters.data) std::memset(counters.data, 0, index(counters.numel) * sizeof(std::int32_t));
  if (out.data) batch_norm_apply(layout, out, in, mean, invstd, weight, bias, residual, activation);
}

void batch_norm_backward_reduce(const ChannelLayout& layout, const View& sum_dy,
                                const View& sum_dy_xhat, const View& dy, const View& in,
                                const View& mean, const View& invstd, const ReluMask& mask,
                                const View& passed, const View&) {
  dispatch_floating(dy.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    const T* g = dy.as<T>();
    const T* x = in.as<T>();
    T* kept = passed.as<T>();
    const S* means = mean.as<S>();
    const Gate<T> gate(mask);
    const std::vector<S> scales = scales_of<S>(mask.weight, invstd, layout.channels);
    const std::vector<S> shifts = values_of<S>(mask.bias, layout.channels, 0);
    ChannelPieces pieces(layout, 2);
    const bool all_pass = mask.from == ReluMask::From::nothing && !kept;
    if (all_pass && !sum_dy_xhat.data) {
      pieces.compute<S>([&](const auto& part, auto&& put) {
        put_sums(put, part.template sums<1>([&](auto width, int, std::int64_t at, auto& sums) {
          sums[0] += load<width>(g + at);
        }));
      });
    } else {
      either(all_pass, [&](auto plain) {
        pieces.compute<S>([&](const auto& part, auto&& put) {
          const auto m = part.param(means);
          const auto scale = part.param(scales.data()), shift = part.param(shifts.data());
          put_sums(put, part.template sums<2>([&](auto width, int v, std::int64_t at, auto& sums) {
            Lanes<S, width> d = load<width>(g + at);
            const Lanes<S, width> deviation = load<width>(x + at) - m[v];
            if (!plain) d = gate.template operator()<width>(at, d, deviation, scale[v], shift[v]);
            if (!plain && kept) store<width>(kept + at, d);
            sums[0] += d;
            sums[1] += d * deviation;
          }));
        });
      });
    }
    const std::int64_t channels = layout.channels;
    if (sum_dy.data) put_total(sum_dy.as<S>(), pieces, 0, channels);
    if (sum_dy_xhat.data) put_total(sum_dy_xhat.as<S>(), pieces, 1, channels, invstd.as<S>());
  });
}

void batch_norm_backward_apply(const ChannelLayout& layout, const View& dx, const View& dy,
                               const View& in, const View& mean, const View& invstd,
                               const View& weight, const View& sum_dy, const View& sum_dy_xhat,
                               const View& count, std::int64_t n, const ReluMask& mask) {
  dispatch_floating(dy.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    const T* g = dy.as<T>();
    const T* x = in.as<T>();
    T* out = dx.as<T>();
    const S* means = mean.as<S>();
    const Gate<T> gate(mask);
    const std::vector<S> scales = scales_of<S>(weight, invstd, layout.channels);
    if (!sum_dy.data && mask.from == ReluMask::From::nothing) {
      for_each_channel_run<S>(layout, [&](auto&& param, auto&& loop) {
        const auto scale = param(scales.data());
        loop([&](auto width, std::int64_t at, std::int64_t c) {
          store<width>(out + at, load<width>(g + at) * scale(width, c));
        });
      });
      return;
    }
    const Terms<S> terms =
        terms_of<S>(scales, sum_dy, sum_dy_xhat, invstd, sum_dy.data ? count_of(count, n) : 1);
    const std::vector<S> biases = values_of<S>(mask.bias, layout.channels, 0);
    either(mask.from == ReluMask::From::nothing, [&](auto plain) {
      for_each_channel_run<S>(layout, [&](auto&& param, auto&& loop) {
        const auto m = param(means), scale = param(scales.data()), bias = param(biases.data());
        const auto shift = param(terms.shifts.data()), slope = param(terms.slopes.data());
        loop([&](auto width, std::int64_t at, std::int64_t c) {
          Lanes<S, width> d = load<width>(g + at);
          const Lanes<S, width> deviation = load<width>(x + at) - m(width, c);
          if (!plain)
            d = gate.template operator()<width>(at, d, deviation, scale(width, c), bias(width, c));
          Lanes<S, width> v = d * scale(width, c);
          // Constant statistics: an infinite input must not reach the gradient, not even times 0.
          if (plain || sum_dy.data) v = v - shift(width, c) - deviation * slope(width, c);
          store<width>(out + at, v);
        });
      });
    });
  });
}

namespace {

template <class T>
struct NormalizedMaxima {
  using S = Compute<T>;
  T *out, *picked;
  View code;
  const S* mean;
  std::vector<S> scales, shifts;

  template <int W>
  void reduce(const WindowRow<T>& window, std::int64_t step, std::int64_t at, std::int64_t,
              std::int64_t) const {
    const std::int64_t c = at % std::ssize(scales);
    const auto m = load<W>(mean + c), scale = load<W>(scales.data() + c),
               shift = load<W>(shifts.data() + c);
    Maximum<S, W> maximum(window.place);
    Lanes<S, W> cell{};
    for_each_cell<W>(
        window, step,
        [&](const Lanes<S, W>& x, std::int64_t place) {
          const Lanes<S, W> y = affine(x - m, scale, shift);
          const Lanes<S, W> positive = y < 0 ? Lanes<S, W>{} : y;
          cell = maximum.see(rounded<T, W>(positive), place) ? x : cell;
        },
        [] {});
    store<W>(out + at, maximum.best);
    if (picked) store<W>(picked + at, cell);
    maximum.store_place(code, at);
  }
};

template <class T, class Code>
struct NormalizedCells {
  using S = Compute<T>;
  const T *grad_out, *in;
  const Code* code;
  const S* mean;
  const std::vector<S>&scales, &biases;
  const Terms<S>& terms;
  Gate<T> gate;

  template <int W>
  Lanes<S, W> gather(std::int64_t at, std::int64_t place, std::int64_t, std::int64_t) const {
    return chosen_gradients<W>(grad_out, code, at, place);
  }
  template <int W>
  Lanes<S, W> result(const Lanes<S, W>& sum, std::int64_t cell, std::int64_t c) const {
    const auto scale = load<W>(scales.data() + c);
    const Lanes<S, W> deviation = load<W>(in + cell) - load<W>(mean + c);
    const Lanes<S, W> dy = gate.template operator()<W>(cell, rounded<T, W>(sum), deviation, scale,
                                                       load<W>(biases.data() + c));
    return dy * scale - load<W>(terms.shifts.data() + c) -
           deviation * load<W>(terms.slopes.data() + c);
  }
};

}  // namespace

void batch_norm_max_pool(const Pool2d& p, const View& out, const View& picked, const View& code,
                         const View& in, const View& mean, const View& invstd, const View& weight,
                         const View& bias) {
  dispatch_floating(in.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    const NormalizedMaxima<T> op{.out = out.as<T>(),
                                 .picked = picked.as<T>(),
                                 .code = code,
                                 .mean = mean.as<S>(),
                                 .scales = scales_of<S>(weight, invstd, p.channels),
                                 .shifts = values_of<S>(bias, p.channels, 0)};
    forward_channels_last(p, in.as<T>(), op);
  });
}

void batch_norm_max_pool_backward(const Pool2d& p, const View& dx, const View& grad_out,
                                  const View& code, const View& in, const View& mean,
                                  const View& invstd, const View& weight, const View& bias,
                                  const View& sum_dy, const View& sum_dy_xhat) {
  dispatch_floating(in.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    const std::vector<S> scales = scales_of<S>(weight, invstd, p.channels);
    const std::vector<S> biases = values_of<S>(bias, p.channels, 0);
    const Terms<S> terms = terms_of<S>(scales, sum_dy, sum_dy_xhat, invstd,
                                       static_cast<double>(p.batch * p.h.input * p.w.input));
    const Gate<T> gate({.from = ReluMask::From::input, .weight = weight, .bias = bias, .out = {}});
    dispatch_types<std::uint8_t, std::int32_t>(code.dtype, "batch_norm", [&]<class Code>() {
      const NormalizedCells<T, Code> op{.grad_out = grad_out.as<T>(),
                                        .in = in.as<T>(),
                                        .code = code.as<Code>(),
                                        .mean = mean.as<S>(),
                                        .scales = scales,
                                        .biases = biases,
                                        .terms = terms,
                                        .gate = gate};
      backward_channels_last(p, dx.as<T>(), op);
    });
  });
}

}  // namespace ferrite::kernels::cpu
