// Transforms that scale: Pillow's separable resampling. Each value of the result is a weighted mean
// of pixels, first along rows, then along columns, under a triangle as wide as two pixels of the
// larger of both images. Of uint8 images the weights are integers of 22 bits and what lies between
// the two passes is rounded to uint8 as well.
#include <algorithm>
#include <cmath>
#include <vector>

#include "data/image_tensor.h"
#include "data/transforms.h"

namespace ferrite::data {

namespace {

void check_size(std::int64_t height, std::int64_t width, std::string_view op) {
  FERRITE_CHECK(height > 0 && width > 0, ValueError, op, "expected a size above 0, got {} x {}",
                height, width);
}

/// As Python's round(): halves to the even neighbour.
std::int64_t rounded(double v) { return static_cast<std::int64_t>(std::nearbyint(v)); }

/// How a dtype is computed with: weights, sums of weights times values, and what becomes of a sum.
template <class T>
struct Arithmetic {
  using Weight = float;
  static constexpr Weight kStart = 0;
  static Weight weight(double w) { return static_cast<float>(w); }
  static T result(Weight sum) { return sum; }
};
template <>
struct Arithmetic<std::uint8_t> {
  using Weight = std::int32_t;
  static constexpr int kBits = 22;
  static constexpr Weight kStart = 1 << (kBits - 1);
  static Weight weight(double w) { return static_cast<Weight>(0.5 + w * (1 << kBits)); }
  static std::uint8_t result(Weight sum) {
    return static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255));
  }
};

/// Of one axis: the range of pixels that each value of the result is made of, with their weights.
template <class T>
struct Taps {
  using Weight = typename Arithmetic<T>::Weight;
  struct Range {
    std::int64_t first, count;
    std::size_t weights;  // index of the first
  };

  Taps(std::int64_t in, std::int64_t out) {
    const double scale = static_cast<double>(in) / static_cast<double>(out);
    const double support = std::max(scale, 1.0);
    std::vector<double> w;
    for (std::int64_t i = 0; i < out; ++i) {
      const double center = (static_cast<double>(i) + 0.5) * scale;
      const auto first =
          std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
      const auto last =
          std::min<std::int64_t>(static_cast<std::int64_t>(center + support + 0.5), in);
      w.clear();
      double sum = 0;
      for (std::int64_t k = first; k < last; ++k) {
        w.push_back(
            std::max(1 - std::abs((static_cast<double>(k) - center + 0.5) * (1 / support)), 0.0));
        sum += w.back();
      }
      ranges.push_back({first, last - first, weights.size()});
      for (const double v : w) weights.push_back(Arithmetic<T>::weight(v / sum));
    }
  }

  std::vector<Range> ranges;
  std::vector<Weight> weights;
};

/// Rows of `in`, `stride` apart, each to one of `out`.
template <class T>
void resize_rows(const T* in, std::int64_t rows, std::int64_t stride, const Taps<T>& taps, T* out) {
  for (std::int64_t y = 0; y < rows; ++y, in += stride)
    for (const auto& range : taps.ranges) {
      auto sum = Arithmetic<T>::kStart;
      const auto* weight = taps.weights.data() + range.weights;
      for (std::int64_t k = 0; k < range.count; ++k) sum += in[range.first + k] * weight[k];
      *out++ = Arithmetic<T>::result(sum);
    }
}

/// Columns of `in`, whose rows have `width` values, each to one of `out`.
template <class T>
void resize_columns(const T* in, std::int64_t width, const Taps<T>& taps, T* out) {
  std::vector<typename Arithmetic<T>::Weight> sums(static_cast<std::size_t>(width));
  for (const auto& range : taps.ranges) {
    std::ranges::fill(sums, Arithmetic<T>::kStart);
    for (std::int64_t k = 0; k < range.count; ++k) {
      const auto weight = taps.weights[range.weights + static_cast<std::size_t>(k)];
      const T* row = in + (range.first + k) * width;
      for (std::size_t x = 0; x < sums.size(); ++x) sums[x] += row[x] * weight;
    }
    out = std::ranges::transform(sums, out, Arithmetic<T>::result).out;
  }
}

/// The window of a dense image, which it lies in, scaled.
template <class T>
void resize(const Tensor& image, const Window& window, const Tensor& out) {
  const std::int64_t height = out.size(1), width = out.size(2);
  const Taps<T> across(window.width, width), down(window.height, height);
  std::vector<T> between(static_cast<std::size_t>(window.height * width));
  for (std::int64_t c = 0; c < image.size(0); ++c) {
    const T* plane = image.data<T>() + (c * image.size(1) + window.top) * image.size(2);
    resize_rows(plane + window.left, window.height, image.size(2), across, between.data());
    resize_columns(between.data(), width, down, out.data<T>() + c * height * width);
  }
}

Tensor resized(const Tensor& image, const Window& window, std::int64_t height, std::int64_t width,
               std::string_view op) {
  FERRITE_CHECK(image.size(1) > 0 && image.size(2) > 0, ShapeError, op,
                "expected an image with pixels, got {}", image.describe());
  if (window.height == height && window.width == width) return window_of(image, window);
  Tensor out = empty({image.size(0), height, width}, {.dtype = image.dtype()});
  dispatch_image(image, op, [&]<class T>() { resize<T>(image, window, out); });
  return out;
}

}  // namespace

// ---- Resize

Resize::Resize(std::int64_t size) : height_(size), width_(0) { check_size(size, size, "resize"); }

Resize::Resize(std::int64_t height, std::int64_t width) : height_(height), width_(width) {
  check_size(height, width, "resize");
}

Tensor Resize::apply(const Tensor& image, Generator&) const {
  const Tensor in = dense_image(image, "resize");
  const std::int64_t from_height = in.size(1), from_width = in.size(2);
  std::int64_t height = height_, width = width_;
  if (width_ == 0) {
    const std::int64_t shorter = std::max<std::int64_t>(std::min(from_height, from_width), 1);
    height = height_ * from_height / shorter;
    width = height_ * from_width / shorter;
  }
  if (height == from_height && width == from_width) return in;
  return resized(in, {0, 0, from_height, from_width}, height, width, "resize");
}

// ---- CenterCrop

CenterCrop::CenterCrop(std::int64_t height, std::int64_t width) : height_(height), width_(width) {
  check_size(height, width, "center_crop");
}

Tensor CenterCrop::apply(const Tensor& image, Generator&) const {
  const Tensor in = dense_image(image, "center_crop");
  // Where it pads, torchvision rounds the other way.
  const auto start = [](std::int64_t from, std::int64_t to) {
    return to > from ? -((to - from) / 2) : rounded(static_cast<double>(from - to) / 2);
  };
  return window_of(in, {start(in.size(1), height_), start(in.size(2), width_), height_, width_});
}

// ---- RandomResizedCrop

RandomResizedCrop::RandomResizedCrop(std::int64_t height, std::int64_t width,
                                     const RandomResizedCropOptions& options)
    : height_(height), width_(width), options_(options) {
  check_size(height, width, "random_resized_crop");
  const auto& [low, high] = options.scale;
  FERRITE_CHECK(low > 0 && low <= high && high <= 1, ValueError, "random_resized_crop",
                "expected a scale of 0 < low <= high <= 1, got {} and {}", low, high);
  FERRITE_CHECK(options.ratio[0] > 0 && options.ratio[0] <= options.ratio[1] &&
                    std::isfinite(options.ratio[1]),
                ValueError, "random_resized_crop",
                "expected a ratio of 0 < low <= high, got {} and {}", options.ratio[0],
                options.ratio[1]);
}

namespace {

Window draw_part(std::int64_t height, std::int64_t width, const RandomResizedCropOptions& options,
                 Generator& random) {
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  const auto& [low, high] = options.ratio;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = h * w * uniform(random, options.scale[0], options.scale[1]);
    const double ratio = std::exp(uniform(random, std::log(low), std::log(high)));
    const std::int64_t part_width = rounded(std::sqrt(area * ratio));
    const std::int64_t part_height = rounded(std::sqrt(area / ratio));
    if (part_width < 1 || part_width > width || part_height < 1 || part_height > height) continue;
    const std::int64_t top = up_to(random, height - part_height);
    return {top, up_to(random, width - part_width), part_height, part_width};
  }
  Window part{0, 0, height, width};
  if (w / h < low) part.height = std::clamp<std::int64_t>(rounded(w / low), 1, height);
  if (w / h > high) part.width = std::clamp<std::int64_t>(rounded(h * high), 1, width);
  part.top = (height - part.height) / 2;
  part.left = (width - part.width) / 2;
  return part;
}

}  // namespace

Tensor RandomResizedCrop::apply(const Tensor& image, Generator& random) const {
  const Tensor in = dense_image(image, "random_resized_crop");
  return resized(in, draw_part(in.size(1), in.size(2), options_, random), height_, width_,
                 "random_resized_crop");
}

}  // namespace ferrite::data
