// Depthwise convolutions, a group for every channel, of images that lie pixel by pixel (NHWC): the
// lanes of a vector are channels, and nothing is copied. Of every dtype.
#pragma once

#include <tuple>
#include <vector>

#include "ferrite/kernels/cpu/conv/plan.h"
#include "ferrite/kernels/cpu/conv/weight_sums.h"
#include "ferrite/kernels/cpu/simd.h"
#include "ferrite/kernels/cpu/unary.h"

namespace ferrite::kernels::cpu::depthwise {

/// Results side by side: as many sums as hide the latency of one and have registers. Blocks of
/// channels are as wide as those of floats, so that doubles may take two registers each.
template <class T>
inline constexpr int kPixels = sizeof(T) == 8 ? 4 : 8;

/// Along an axis, the results [first, last) all of whose taps are inside `size`.
inline std::pair<std::int64_t, std::int64_t> interior(const Axis& a, std::int64_t size) {
  const std::int64_t reach = a.first + (a.taps - 1) * a.step;
  const std::int64_t first = a.first < 0 ? (-a.first + a.stride - 1) / a.stride : 0;
  const std::int64_t last = size - reach > 0 ? (size - reach - 1) / a.stride + 1 : 0;
  return {std::min(first, a.count), std::clamp(last, std::min(first, a.count), a.count)};
}

/// Forward, or the gradient by the input: correlations with the taps of every phase.
template <class S, class T = Compute<S>>
class Correlation {
 public:
  explicit Correlation(const ConvCall& call)
      : out_(call.pass == ConvPass::forward ? call.out : call.input, 0, call.params.groups),
        in_(call.pass == ConvPass::forward ? call.input : call.out, 0, call.params.groups),
        kernel_columns_(call.weight.sizes[3]),
        rows_(axes_of(call, 0)),
        columns_(axes_of(call, 1)),
        weights_(call.weight.numel),
        bias_(out_.channels) {
    const View &weight = call.weight, &bias = call.bias;
    T* to = weights_.data();
    for (std::int64_t y = 0; y < weight.sizes[2]; ++y)
      for (std::int64_t x = 0; x < kernel_columns_; ++x)
        for (std::int64_t c = 0; c < out_.channels; ++c)
          *to++ = static_cast<T>(weight.as<S>()[c * weight.strides[0] + y * weight.strides[2] +
                                                x * weight.strides[3]]);
    for (std::int64_t c = 0; c < out_.channels; ++c)
      bias_.data()[c] = bias.data ? static_cast<T>(bias.as<S>()[c * bias.strides[0]]) : T(0);
  }

  void run() const {
    for (const Axis& rows : rows_) {
      const std::int64_t work = out_.width * out_.channels * std::max<std::int64_t>(1, rows.taps);
      parallel_for(out_.count * rows.count, (1 << 15) / std::max<std::int64_t>(1, work) + 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i)
                       for (const Axis& columns : columns_)
                         run_row(rows, columns, i / rows.count, i % rows.count);
                   });
    }
  }

 private:
  struct Taps {
    std::int64_t first_row, last_row, first_column, last_column;
  };

  /// Pixel by pixel, all channels of each, as they lie in memory.
  void run_row(const Axis& rows, const Axis& columns, std::int64_t image, std::int64_t i) const {
    // No structured bindings: Clang captures them from version 16 on.
    const auto row_taps = taps_inside(rows, i, in_.height);
    const auto inner = interior(columns, in_.width);
    const std::int64_t left = inner.first, right = inner.second;
    Taps taps{row_taps.first, row_taps.second, 0, columns.taps};
    const auto run = [&, this](auto pixels, std::int64_t j) {
      for_blocks(0, out_.channels, [&, this](std::int64_t c, auto width) {
        run_pixels<decltype(width)::value, decltype(pixels)::value>(rows, columns, image, i, j, c,
                                                                    taps);
      });
    };
    const std::integral_constant<int, 1> one;
    const auto at_edge = [&](std::int64_t j) {
      std::tie(taps.first_column, taps.last_column) = taps_inside(columns, j, in_.width);
      run(one, j);
    };
    for (std::int64_t j = 0; j < left; ++j) at_edge(j);
    taps.first_column = 0;
    taps.last_column = columns.taps;
    // What is left goes with some that are done already: single ones wait for their sums.
    std::int64_t j = left;
    const auto blocks = [&](auto pixels) {
      if (right - left < pixels) return;
      for (; j < right; j += pixels) run(pixels, std::min<std::int64_t>(j, right - pixels));
    };
    blocks(std::integral_constant<int, kPixels<T>>());
    blocks(std::integral_constant<int, kPixels<T> / 2>());
    for (; j < right; ++j) run(one, j);
    j = right;
    for (; j < columns.count; ++j) at_edge(j);
  }

  template <int W, int P>
  void run_pixels(const Axis& rows, const Axis& columns, std::int64_t image, std::int64_t i,
                  std::int64_t j, std::int64_t c, const Taps& taps) const {
    Lanes<T, W> sums[P];
    for (int p = 0; p < P; ++p) sums[p] = load<W>(bias_.data() + c);
    const std::int64_t step = columns.stride * in_.pixel_step;
    const std::int64_t y = i * rows.stride + rows.first + taps.first_row * rows.step;
    const std::int64_t x = j * columns.stride + columns.first + taps.first_column * columns.step;
    const S* row = in_.data + image * in_.image_step + y * in_.row_step + x * in_.pixel_step + c;
    const T* weights = weights_.data() + c +
                       ((rows.kernel_first + taps.first_row * rows.kernel_step) * kernel_columns_ +
                        columns.kernel_first + taps.first_column * columns.kernel_step) *
                           out_.channels;
    for (std::int64_t t = taps.first_row; t < taps.last_row; ++t) {
      const S* from = row;
      const T* weight = weights;
      for (std::int64_t u = taps.first_column; u < taps.last_column; ++u) {
        const Lanes<T, W> w = load<W>(weight);
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) sums[p] += load<W>(from + p * step) * w;
        from += columns.step * in_.pixel_step;
        weight += columns.kernel_step * out_.channels;
      }
      row += rows.step * in_.row_step;
      weights += rows.kernel_step * kernel_columns_ * out_.channels;
    }
    S* to = out_.data + image * out_.image_step +
            (rows.out_first + i * rows.out_step) * out_.row_step +
            (columns.out_first + j * columns.out_step) * out_.pixel_step + c;
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) store<W>(to + p * columns.out_step * out_.pixel_step, sums[p]);
  }

  Images<S> out_;
  Images<const S> in_;
  std::int64_t kernel_columns_;
  std::vector<Axis> rows_, columns_;
  Scratch<T> weights_;  // [kernel rows, kernel columns, channels]
  Scratch<T> bias_;
};

/// The gradient by the weights, and by the bias: row by row, so that a row of both images is near
/// for all taps. Sums for the weights are those of a row, then of an image, then of a part's
/// images.
template <class S, class T = Compute<S>>
class WeightGradient {
 public:
  explicit WeightGradient(const ConvCall& call)
      : in_(call.input, 0, call.params.groups),
        grad_(call.out, 0, call.params.groups),
        rows_(axes_of(call, 0)[0]),
        columns_(axes_of(call, 1)[0]) {
    for (std::int64_t u = 0; u < columns_.taps; u += kTogether) {
      Axis taps = columns_;
      taps.first += u * taps.step;
      taps.taps = std::min(kTogether, columns_.taps - u);
      const auto [left, right] = interior(taps, in_.width);
      together_.push_back({taps, left, right, u});
    }
  }

  void run(const View& grad_weight, const View& grad_bias) const {
    const std::int64_t channels = grad_.channels, taps = rows_.taps * columns_.taps;
    const std::int64_t parts = std::clamp<std::int64_t>(grad_.count, 1, kParts);
    const std::int64_t across = (channels + kChannels - 1) / kChannels;
    const Scratch<T> sums(parts * (taps + 1) * channels);  // the last of the bias
    std::fill_n(sums.data(), parts * (taps + 1) * channels, T(0));
    parallel_for(parts * across, 1, [&](std::int64_t task, std::int64_t) {
      const std::int64_t part = task / across, c = task % across * kChannels;
      const std::int64_t count = std::min(channels - c, kChannels);
      T* to = sums.data() + part * (taps + 1) * channels + c;
      const Scratch<T> of_image(taps * kChannels);
      for (std::int64_t n = part * grad_.count / parts; n < (part + 1) * grad_.count / parts; ++n) {
        std::fill_n(of_image.data(), taps * kChannels, T(0));
        add_image(n, c, count, of_image.data(), to + taps * channels);
        for (std::int64_t t = 0; t < taps; ++t)
          add_run(to + t * channels, of_image.data() + t * kChannels, count);
      }
    });
    for (std::int64_t p = 1; p < parts; ++p)
      add_run(sums.data(), sums.data() + p * (taps + 1) * channels, (taps + 1) * channels);
    const T* from = sums.data();
    for (std::int64_t y = 0; y < rows_.taps; ++y)
      for (std::int64_t x = 0; x < columns_.taps; ++x)
        for (std::int64_t c = 0; c < channels; ++c)
          grad_weight.as<S>()[c * grad_weight.strides[0] + y * grad_weight.strides[2] +
                              x * grad_weight.strides[3]] = static_cast<S>(*from++);
    if (grad_bias.data)
      for (std::int64_t c = 0; c < channels; ++c)
        grad_bias.as<S>()[c * grad_bias.strides[0]] = static_cast<S>(*from++);
  }

 private:
  static constexpr std::int64_t kParts = 16, kChannels = 64, kTogether = 3;

  /// Taps side by side, and the results all of whose taps are inside the image.
  struct Together {
    Axis taps;
    std::int64_t left, right, first_tap;
  };

  /// Calls f(first, width) for blocks of `count` channels, none of them twice.
  template <class F>
  static void for_channels(std::int64_t count, F&& f) {
    std::int64_t c = 0;
    constexpr int kWide = kLanes<T>;
    for (; c + kWide <= count; c += kWide) f(c, std::integral_constant<int, kWide>());
    for (; c + 4 <= count; c += 4) f(c, std::integral_constant<int, 4>());
    for (; c < count; ++c) f(c, std::integral_constant<int, 1>());
  }

  /// Adds the image's sums of `count` channels from `c` on to `sums`, [taps, kChannels], and
  /// `bias`.
  void add_image(std::int64_t image, std::int64_t c, std::int64_t count, T* sums, T* bias) const {
    for (std::int64_t i = 0; i < grad_.height; ++i) {
      const S* grad = grad_.data + image * grad_.image_step + i * grad_.row_step + c;
      for_channels(count, [&, this](std::int64_t b, auto width) {
        add_bias<decltype(width)::value>(grad + b, bias + b);
      });
      for (std::int64_t t = 0; t < rows_.taps; ++t) {
        const std::int64_t y = i * rows_.stride + rows_.first + t * rows_.step;
        if (y < 0 || y >= in_.height) continue;
        const S* in = in_.data + image * in_.image_step + y * in_.row_step + c;
        for_channels(count, [&, this](std::int64_t b, auto width) {
          constexpr int W = decltype(width)::value;
          for (const Together& of : together_) {
            T* to = sums + (t * columns_.taps + of.first_tap) * kChannels + b;
            switch (of.taps.taps) {
              case 3:
                add_taps<W, 3>(of, in + b, grad + b, to);
                break;
              case 2:
                add_taps<W, 2>(of, in + b, grad + b, to);
                break;
              default:
                add_taps<W, 1>(of, in + b, grad + b, to);
            }
          }
        });
      }
    }
  }

  /// Adds a row's sums for U taps side by side.
  template <int W, int U>
  void add_taps(const Together& of, const S* in, const S* grad, T* to) const {
    const Axis& columns = of.taps;
    Lanes<T, W> sums[U], of_row[U] = {};
    for (int v = 0; v < U; ++v) sums[v] = load<W>(to + v * kChannels);
    const auto at_edge = [&](std::int64_t j) {
      const Lanes<T, W> g = load<W>(grad + j * grad_.pixel_step);
#pragma GCC unroll 3
      for (int v = 0; v < U; ++v) {
        const std::int64_t x = j * columns.stride + columns.first + v * columns.step;
        if (x >= 0 && x < in_.width) of_row[v] += load<W>(in + x * in_.pixel_step) * g;
      }
    };
    const auto add_up = [&] {
#pragma GCC unroll 3
      for (int v = 0; v < U; ++v) {
        sums[v] += of_row[v];
        of_row[v] = Lanes<T, W>{};
      }
    };
    for (std::int64_t j = 0; j < of.left; ++j) at_edge(j);
    const std::int64_t tap_step = columns.step * in_.pixel_step;
    for (std::int64_t j = of.left; j < of.right; add_up())
      for (const std::int64_t part = std::min(of.right, j + kPartPixels); j < part; ++j) {
        const Lanes<T, W> g = load<W>(grad + j * grad_.pixel_step);
        const S* from = in + (j * columns.stride + columns.first) * in_.pixel_step;
#pragma GCC unroll 3
        for (int v = 0; v < U; ++v) of_row[v] += load<W>(from + v * tap_step) * g;
      }
    for (std::int64_t j = of.right; j < columns.count; ++j) at_edge(j);
    add_up();
    for (int v = 0; v < U; ++v) store<W>(to + v * kChannels, sums[v]);
  }

  template <int W>
  void add_bias(const S* grad, T* to) const {
    Lanes<T, W> of_row = {};
    for (std::int64_t j = 0; j < grad_.width; ++j) of_row += load<W>(grad + j * grad_.pixel_step);
    store<W>(to, load<W>(to) + of_row);
  }

  Images<const S> in_, grad_;
  Axis rows_, columns_;
  std::vector<Together> together_;
};

template <class S>
void run(const ConvCall& call) {
  if (call.pass == ConvPass::weight) return WeightGradient<S>(call).run(call.weight, call.bias);
  Correlation<S>(call).run();
  if (call.pass == ConvPass::forward && call.params.activation == Activation::relu)
    unary(UnaryOp::relu, call.out, call.out, {});
}

}  // namespace ferrite::kernels::cpu::depthwise
