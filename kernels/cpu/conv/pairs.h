// Images and weights of BFloat16 as the pairs that the inner kernel multiplies where the machine
// can (kernels/cpu/simd.h): of channels for a correlation, of images for the gradient by the
// weights.
#pragma once

#include "ferrite/kernels/cpu/conv/correlate.h"
#include "ferrite/kernels/cpu/half_runs.h"

namespace ferrite::kernels::cpu {

/// Whether sums over `channels` go by pairs; a single one would leave half of each empty.
template <class S>
bool by_pairs(std::int64_t channels) {
  return kPairsCompiled && std::is_same_v<S, BFloat16> && channels > 1 && pair_products();
}

/// Whether products of pairs sum up several taps faster than float32's do, copying included. On an
/// Intel Xeon with AMX such an instruction takes three times as long as one of float32, on AMD's
/// Zen 4 as long (measured by direct sums); on the former copies are worth it.
inline bool pairs_suit_taps() {
#if defined(__x86_64__)
  static const bool suit = !__builtin_cpu_is("intel");
  return suit;
#else
  return true;
#endif
}

namespace pairs {

/// Dense images of pairs at `data`, planes or pixels one after another.
inline Images<const Pair> dense(const Pair* data, std::int64_t count, std::int64_t channels,
                                std::int64_t height, std::int64_t width, bool planes) {
  Images<const Pair> images;
  images.data = data;
  images.count = count;
  images.channels = channels;
  images.height = height;
  images.width = width;
  images.image_step = channels * height * width;
  images.channel_step = planes ? height * width : 1;
  images.pixel_step = planes ? 1 : channels;
  images.row_step = width * images.pixel_step;
  return images;
}

/// Images as pairs of channels: where they lie if they can be read so, else copied.
class ChannelPairs {
 public:
  explicit ChannelPairs(const Images<const BFloat16>& from) {
    const std::int64_t channels = (from.channels + 1) / 2;
    const bool in_place = from.channel_step == 1 && from.channels % 2 == 0 &&
                          from.pixel_step % 2 == 0 && from.row_step % 2 == 0 &&
                          from.image_step % 2 == 0;
    if (in_place) {
      images_ = dense(reinterpret_cast<const Pair*>(from.data), from.count, channels, from.height,
                      from.width, false);
      images_.pixel_step = from.pixel_step / 2;
      images_.row_step = from.row_step / 2;
      images_.image_step = from.image_step / 2;
      return;
    }
    copied_ = Scratch<Pair>(from.count * from.height * from.width * channels);
    images_ = dense(copied_.data(), from.count, channels, from.height, from.width,
                    from.channel_step != 1);
    const std::int64_t cost = std::max<std::int64_t>(1, from.width * from.channels);
    parallel_for(from.count * from.height, 65536 / cost + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row)
                     copy_row(from, row / from.height, row % from.height);
                 });
  }
  const Images<const Pair>& images() const { return images_; }

 private:
  void copy_row(const Images<const BFloat16>& from, std::int64_t image, std::int64_t y) const {
    const BFloat16* source = from.data + image * from.image_step + y * from.row_step;
    Pair* to = copied_.data() + image * images_.image_step + y * images_.row_step;
    for (std::int64_t c = 0; c < images_.channels; ++c, to += images_.channel_step) {
      const BFloat16* first = source + 2 * c * from.channel_step;
      const BFloat16* second = 2 * c + 1 < from.channels ? first + from.channel_step : nullptr;
      if (images_.pixel_step == 1)
        interleave(to, first, second, from.width, from.pixel_step);
      else
        for (std::int64_t x = 0; x < from.width; ++x)
          interleave(to + x * images_.pixel_step, first + x * from.pixel_step,
                     second ? second + x * from.pixel_step : nullptr, 1);
    }
  }

  Images<const Pair> images_;
  Scratch<Pair> copied_;
};

/// The filter of a group whose output channels are [first, first + outs) of `weight`: pairs of
/// input channels, or of output channels for the gradient by the input.
class FilterPairs {
 public:
  FilterPairs(const View& weight, std::int64_t first, std::int64_t outs, bool backward)
      : weight_(weight),
        first_(first),
        channels_(weight.sizes[1]),
        taps_(weight.sizes[2] * weight.sizes[3]) {
    const std::int64_t* s = weight.strides;
    by_pixels_ = s[1] == 1 && s[3] == channels_ && s[2] == weight.sizes[3] * channels_;
    const std::int64_t rows = backward ? (outs + 1) / 2 : outs;
    const std::int64_t columns = backward ? channels_ : (channels_ + 1) / 2;
    const std::int64_t size = taps_ * columns;
    filter_ = {nullptr, backward ? 1 : size, backward ? size : 1, weight.sizes[3] * columns,
               columns};
    if (!backward && by_pixels_ && channels_ % 2 == 0 && s[0] % 2 == 0) {
      filter_.data = reinterpret_cast<const Pair*>(weight.as<BFloat16>() + first * s[0]);
      filter_.out_step = s[0] / 2;
      return;
    }
    copied_ = Scratch<Pair>(rows * size);
    filter_.data = copied_.data();
    const std::int64_t count = channels_ * taps_;
    parallel_for(rows, 32768 / std::max<std::int64_t>(1, count) + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   const Scratch<float> wide(2 * count);
                   const Scratch<BFloat16> pixels(2 * count);
                   for (std::int64_t i = begin; i < end; ++i) {
                     Pair* to = copied_.data() + i * size;
                     if (backward) {
                       const BFloat16* one = row(2 * i, wide.data(), pixels.data());
                       const BFloat16* other = nullptr;
                       if (2 * i + 1 < outs)
                         other = row(2 * i + 1, wide.data(), pixels.data() + count);
                       interleave(to, one, other, count);
                       continue;
                     }
                     const BFloat16* from = row(i, wide.data(), pixels.data());
                     for (std::int64_t t = 0; t < taps_; ++t, from += channels_)
                       for (std::int64_t c = 0; c < channels_; c += 2)
                         *to++ = {from[c], c + 1 < channels_ ? from[c + 1] : BFloat16(0)};
                   }
                 });
  }
  const Filter<Pair>& filter() const { return filter_; }

 private:
  /// The weights of an output channel as [taps, input channels], at `to` if they lie otherwise.
  const BFloat16* row(std::int64_t o, float* wide, BFloat16* to) const {
    const std::int64_t* s = weight_.strides;
    const BFloat16* from = weight_.as<BFloat16>() + (first_ + o) * s[0];
    const std::int64_t count = channels_ * taps_;
    if (by_pixels_) return from;
    if (s[1] == taps_ && s[2] == weight_.sizes[3] && s[3] == 1) {
      widen(wide, from, count);
      copy_matrix(wide + count, channels_, wide, 1, taps_, taps_, channels_);
      narrow(to, wide + count, count);
      return to;
    }
    BFloat16* at = to;
    for (std::int64_t y = 0; y < weight_.sizes[2]; ++y)
      for (std::int64_t x = 0; x < weight_.sizes[3]; ++x)
        for (std::int64_t c = 0; c < channels_; ++c) *at++ = from[c * s[1] + y * s[2] + x * s[3]];
    return to;
  }

  const View& weight_;
  std::int64_t first_, channels_, taps_;
  bool by_pixels_;
  Filter<Pair> filter_;
  Scratch<Pair> copied_;
};

/// Images 2 index and, where it exists, 2 index + 1 as one of pairs: `window` of it, as gather()
/// copies it.
inline void gather_images(Pair* to, std::int64_t pixel_step, const Images<const BFloat16>& from,
                          std::int64_t index, const Window& window) {
  const BFloat16* first = from.data + 2 * index * from.image_step;
  const BFloat16* second = 2 * index + 1 < from.count ? first + from.image_step : nullptr;
  const bool pixels = from.channel_step == 1 && from.pixel_step == from.channels;
  if (pixels && pixel_step == from.channels) {
    const auto [top, left, height, width] = window.clipped(from);
    if (width <= 0) return;
    for (std::int64_t y = top; y < top + height; ++y) {
      const std::int64_t at = y * from.row_step + left * pixel_step;
      interleave(to + ((y - window.top) * window.width + left - window.left) * pixel_step,
                 first + at, second ? second + at : nullptr, width * pixel_step);
    }
    return;
  }
  const Scratch<Pair> both(from.channels * from.height * from.width);
  const Images<const Pair> images =
      dense(both.data(), 1, from.channels, from.height, from.width, from.channel_step != 1);
  for (std::int64_t y = 0; y < from.height; ++y)
    if (images.pixel_step == 1) {
      for (std::int64_t c = 0; c < from.channels; ++c) {
        const std::int64_t at = y * from.row_step + c * from.channel_step;
        interleave(both.data() + c * images.channel_step + y * images.row_step, first + at,
                   second ? second + at : nullptr, from.width, from.pixel_step);
      }
    } else {
      for (std::int64_t x = 0; x < from.width; ++x) {
        const std::int64_t at = y * from.row_step + x * from.pixel_step;
        interleave(both.data() + y * images.row_step + x * images.pixel_step, first + at,
                   second ? second + at : nullptr, from.channels);
      }
    }
  gather(to, pixel_step, images, 0, window);
}

}  // namespace pairs

}  // namespace ferrite::kernels::cpu
