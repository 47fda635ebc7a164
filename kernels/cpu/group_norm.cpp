// Group norm. In NCHW a group of an image is a row of contiguous elements, in NHWC an image is
// rows of channels. Both are read again while they are in a near cache.
#include "ferrite/kernels/cpu/batch_norm_terms.h"
#include "ferrite/kernels/cpu/row_moments.h"

namespace ferrite::kernels::cpu {

namespace {

/// f(image) for all images, beside each other if that is enough for all threads, and otherwise one
/// by one with the parallel loops of f.
template <class F>
void for_each_image(const GroupLayout& layout, F&& f) {
  if (layout.images < num_threads()) {
    for (std::int64_t n = 0; n < layout.images; ++n) f(n);
    return;
  }
  parallel_for(layout.images, row_grain(layout.all_channels() * layout.pixels),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t n = begin; n < end; ++n) f(n);
               });
}

/// f(image, group) for all groups of all images.
template <class F>
void for_each_group(const GroupLayout& layout, F&& f) {
  parallel_for(layout.images * layout.groups, row_grain(layout.channels * layout.pixels),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) f(i / layout.groups, i % layout.groups);
               });
}

/// An image in NHWC.
ChannelLayout rows_of_image(const GroupLayout& layout) {
  return {.outer = layout.pixels, .channels = layout.all_channels(), .inner = 1};
}

template <class T>
class Forward {
  using S = Compute<T>;

 public:
  Forward(const GroupLayout& layout, const View& out, const View& mean, const View& rstd,
          const View& in, const View& weight, const View& bias, double eps)
      : layout_(layout),
        y_(out.as<T>()),
        mean_(mean.as<S>()),
        rstd_(rstd.as<S>()),
        x_(in.as<T>()),
        weight_(weight.as<S>()),
        bias_(bias.as<S>()),
        eps_(eps) {}

  void run() const {
    if (layout_.channels_last)
      for_each_image(layout_, [&](std::int64_t n) { normalize_image(n); });
    else
      for_each_group(layout_, [&](std::int64_t n, std::int64_t g) { normalize_group(n, g); });
  }

 private:
  void normalize_group(std::int64_t n, std::int64_t g) const {
    const std::int64_t channels = layout_.channels, pixels = layout_.pixels;
    const std::int64_t row = n * layout_.groups + g;
    const auto [m, rstd] = row_moments(x_, row, channels * pixels, eps_, true);
    mean_[row] = m;
    rstd_[row] = rstd;
    if (pixels == 1) return normalize_pixel(row * channels, g * channels, m, rstd);
    for (std::int64_t j = 0; j < channels; ++j) {
      const std::int64_t c = g * channels + j, at = (row * channels + j) * pixels;
      const S scale = weight_ ? rstd * weight_[c] : rstd, shift = bias_ ? bias_[c] : S(0);
      for_blocks(0, pixels, [&, m = m](std::int64_t i, auto lanes) {
        store<lanes>(y_ + at + i, affine(load<lanes>(x_ + at + i) - m, scale, shift));
      });
    }
  }

  /// A group of one pixel, from `at` on, whose first channel is c.
  void normalize_pixel(std::int64_t at, std::int64_t c, S m, S rstd) const {
    for_blocks(0, layout_.channels, [&](std::int64_t j, auto lanes) {
      Lanes<S, lanes> scale = rstd - Lanes<S, lanes>{}, shift{};
      if (weight_) scale *= load<lanes>(weight_ + c + j);
      if (bias_) shift = load<lanes>(bias_ + c + j);
      store<lanes>(y_ + at + j, affine(load<lanes>(x_ + at + j) - m, scale, shift));
    });
  }

  void normalize_image(std::int64_t n) const {
    const ChannelLayout rows = rows_of_image(layout_);
    const std::int64_t at_image = n * rows.channels * layout_.pixels;
    const Scratch<double> totals(2 * rows.channels);
    double *const means = totals.data(), *const m2s = means + rows.channels;
    channel_moments(rows, x_ + at_image, means, m2s);
    const Scratch<S> params(3 * rows.channels);
    S *const m = params.data(), *const scales = m + rows.channels,
             *const shifts = scales + rows.channels;
    for (std::int64_t g = 0; g < layout_.groups; ++g) {
      const std::int64_t begin = g * layout_.channels, end = begin + layout_.channels;
      const auto channels = static_cast<double>(layout_.channels);
      const auto pixels = static_cast<double>(layout_.pixels);
      double mean = 0, m2 = 0;
      for (std::int64_t c = begin; c < end; ++c) mean += means[c] / channels;
      for (std::int64_t c = begin; c < end; ++c)
        m2 += m2s[c] + pixels * (means[c] - mean) * (means[c] - mean);
      const S rstd = static_cast<S>(1 / std::sqrt(m2 / (channels * pixels) + eps_));
      mean_[n * layout_.groups + g] = static_cast<S>(mean);
      rstd_[n * layout_.groups + g] = rstd;
      for (std::int64_t c = begin; c < end; ++c) {
        m[c] = static_cast<S>(mean);
        scales[c] = weight_ ? rstd * weight_[c] : rstd;
        shifts[c] = bias_ ? bias_[c] : S(0);
      }
    }
    for_each_channel_run<S>(rows, [&](auto&& param, auto&& loop) {
      const auto mean = param(m), scale = param(scales), shift = param(shifts);
      loop([&](auto width, std::int64_t at, std::int64_t c) {
        store<width>(y_ + at_image + at, affine(load<width>(x_ + at_image + at) - mean(width, c),
                                                scale(width, c), shift(width, c)));
      });
    });
  }

  GroupLayout layout_;
  T* y_;
  S *mean_, *rstd_;
  const T* x_;
  const S *weight_, *bias_;
  double eps_;
};

/// dx = scale * dy - shift - slope * (x - mean). First come the sums of dy and of dy * xhat of each
/// image's channels, of which the gradients of weight and bias are sums over the images.
template <class T>
class Backward {
  using S = Compute<T>;

 public:
  Backward(const GroupLayout& layout, const View& grad_in, const View& grad_out, const View& in,
           const View& mean, const View& rstd, const View& weight)
      : layout_(layout),
        channels_(layout.all_channels()),
        dx_(grad_in.as<T>()),
        dy_(grad_out.as<T>()),
        x_(in.as<T>()),
        mean_(mean.as<S>()),
        rstd_(rstd.as<S>()),
        weight_(weight.as<S>()),
        sums_(2 * layout.images * channels_),
        by_bias_(sums_.data()),
        by_weight_(by_bias_ + layout.images * channels_) {}

  void run(const View& grad_weight, const View& grad_bias) {
    if (layout_.channels_last)
      for_each_image(layout_, [&](std::int64_t n) { image_gradient(n); });
    else
      for_each_group(layout_, [&](std::int64_t n, std::int64_t g) { group_gradient(n, g); });
    if (grad_weight.data) sum_images(grad_weight.as<S>(), by_weight_);
    if (grad_bias.data) sum_images(grad_bias.as<S>(), by_bias_);
  }

 private:
  struct Terms {
    S shift, slope;
  };
  /// Of the sums of a group's channels.
  Terms terms(std::int64_t n, std::int64_t g) const {
    double dy = 0, dy_xhat = 0;
    for (std::int64_t j = 0; j < layout_.channels; ++j) {
      const std::int64_t c = g * layout_.channels + j;
      const double w = weight_ ? static_cast<double>(weight_[c]) : 1;
      dy += w * static_cast<double>(by_bias_[n * channels_ + c]);
      dy_xhat += w * static_cast<double>(by_weight_[n * channels_ + c]);
    }
    const auto rstd = static_cast<double>(rstd_[n * layout_.groups + g]);
    const double each = rstd / static_cast<double>(layout_.channels * layout_.pixels);
    return {static_cast<S>(dy * each), static_cast<S>(dy_xhat * each * rstd)};
  }

  void group_gradient(std::int64_t n, std::int64_t g) {
    const std::int64_t pixels = layout_.pixels, group = n * layout_.groups + g;
    const std::int64_t first = group * layout_.channels;
    const S m = mean_[group], rstd = rstd_[group];
    if (pixels == 1)
      for_blocks(first, first + layout_.channels, [&](std::int64_t i, auto lanes) {
        const auto dy = load<lanes>(dy_ + i);
        store<lanes>(by_bias_ + i, dy);
        store<lanes>(by_weight_ + i, dy * (load<lanes>(x_ + i) - m) * rstd);
      });
    else
      for (std::int64_t row = first; row < first + layout_.channels; ++row) {
        const auto sums = row_part<S>(row, pixels)
                              .template sums<2>([&](auto lanes, int, std::int64_t at, auto& sums) {
                                const auto dy = load<lanes>(dy_ + at);
                                sums[0] += dy;
                                sums[1] += dy * (load<lanes>(x_ + at) - m);
                              })[0];
        by_bias_[row] = sums[0];
        by_weight_[row] = sums[1] * rstd;
      }
    if (!dx_) return;
    const auto [shift, slope] = terms(n, g);
    const auto put = [&, shift = shift, slope = slope](auto lanes, std::int64_t at,
                                                       const auto& scale) {
      store<lanes>(dx_ + at,
                   load<lanes>(dy_ + at) * scale - shift - (load<lanes>(x_ + at) - m) * slope);
    };
    const S* const weight = weight_ ? weight_ + g * layout_.channels : nullptr;
    if (pixels == 1)
      return for_blocks(0, layout_.channels, [&](std::int64_t j, auto lanes) {
        Lanes<S, lanes> scale = rstd - Lanes<S, lanes>{};
        if (weight) scale *= load<lanes>(weight + j);
        put(lanes, first + j, scale);
      });
    for (std::int64_t j = 0; j < layout_.channels; ++j) {
      const S scale = weight ? rstd * weight[j] : rstd;
      for_blocks(0, pixels,
                 [&](std::int64_t i, auto lanes) { put(lanes, (first + j) * pixels + i, scale); });
    }
  }

  void image_gradient(std::int64_t n) {
    const ChannelLayout rows = rows_of_image(layout_);
    const T *const x = x_ + n * channels_ * layout_.pixels, *const dy = dy_ + n * channels_ *
                                                                                  layout_.pixels;
    const Scratch<S> params(5 * channels_);
    S *const means = params.data(), *const rstds = means + channels_,
             *const scales = rstds + channels_, *const shifts = scales + channels_,
             *const slopes = shifts + channels_;
    for (std::int64_t c = 0; c < channels_; ++c) {
      means[c] = mean_[n * layout_.groups + c / layout_.channels];
      rstds[c] = rstd_[n * layout_.groups + c / layout_.channels];
    }
    ChannelPieces pieces(rows, 2);
    pieces.compute<S>([&](const auto& part, auto&& put) {
      const auto m = part.param(means);
      put_sums(put, part.template sums<2>([&](auto width, int v, std::int64_t at, auto& sums) {
        const auto g = load<width>(dy + at);
        sums[0] += g;
        sums[1] += g * (load<width>(x + at) - m[v]);
      }));
    });
    put_total(by_bias_ + n * channels_, pieces, 0, channels_);
    put_total(by_weight_ + n * channels_, pieces, 1, channels_, rstds);
    if (!dx_) return;
    T* const dx = dx_ + n * channels_ * layout_.pixels;
    for (std::int64_t g = 0; g < layout_.groups; ++g) {
      const auto [shift, slope] = terms(n, g);
      for (std::int64_t c = g * layout_.channels; c < (g + 1) * layout_.channels; ++c) {
        scales[c] = weight_ ? rstds[c] * weight_[c] : rstds[c];
        shifts[c] = shift;
        slopes[c] = slope;
      }
    }
    for_each_channel_run<S>(rows, [&](auto&& param, auto&& loop) {
      const auto m = param(means), scale = param(scales), shift = param(shifts),
                 slope = param(slopes);
      loop([&](auto width, std::int64_t at, std::int64_t c) {
        store<width>(dx + at, load<width>(dy + at) * scale(width, c) - shift(width, c) -
                                  (load<width>(x + at) - m(width, c)) * slope(width, c));
      });
    });
  }

  void sum_images(S* to, const S* of_images) const {
    const Scratch<double> totals(channels_);
    std::fill_n(totals.data(), channels_, 0.0);
    for (std::int64_t n = 0; n < layout_.images; ++n)
      for (std::int64_t c = 0; c < channels_; ++c)
        totals.data()[c] += static_cast<double>(of_images[n * channels_ + c]);
    std::copy_n(totals.data(), channels_, to);
  }

  GroupLayout layout_;
  std::int64_t channels_;  // of an image
  T* dx_;
  const T *dy_, *x_;
  const S *mean_, *rstd_, *weight_;
  Scratch<S> sums_;
  S *by_bias_, *by_weight_;
};

}  // namespace

void group_norm(const GroupLayout& layout, const View& out, const View& mean, const View& rstd,
                const View& in, const View& weight, const View& bias, double eps) {
  dispatch_floating(in.dtype, "group_norm", [&]<class T>() {
    Forward<T>(layout, out, mean, rstd, in, weight, bias, eps).run();
  });
}

void group_norm_backward(const GroupLayout& layout, const View& grad_in, const View& grad_weight,
                         const View& grad_bias, const View& grad_out, const View& in,
                         const View& mean, const View& rstd, const View& weight) {
  dispatch_floating(in.dtype, "group_norm", [&]<class T>() {
    Backward<T>(layout, grad_in, grad_out, in, mean, rstd, weight).run(grad_weight, grad_bias);
  });
}

}  // namespace ferrite::kernels::cpu
