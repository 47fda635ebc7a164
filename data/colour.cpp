#include "ferrite/data/colour.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ferrite/data/image_tensor.h"
#include "ferrite/data/random_transforms.h"

namespace ferrite::data {

namespace {

template <class T>
constexpr float kBound = std::is_integral_v<T> ? 255.0f : 1.0f;

/// As torch's conversion of a clamped value: uint8 is truncated.
template <class T>
T clipped(float value) {
  return static_cast<T>(std::clamp(value, 0.0f, kBound<T>));
}

template <class T>
T rounded(float value) {
  return static_cast<T>(std::is_integral_v<T> ? std::nearbyint(value) : value);
}

Tensor like(const Tensor& image) {
  return empty(image.shape(), {.dtype = image.dtype(), .device = kCPU});
}

std::int64_t area(const Tensor& image) { return image.size(1) * image.size(2); }

void check_colours(const Tensor& image, std::string_view op) {
  FERRITE_CHECK(image.size(0) == 1 || image.size(0) == 3, ShapeError, op,
                "expected 1 or 3 channels, got {}", image.describe());
}

/// The luminance of each pixel, in the image's type; for a single channel, its values.
template <class T>
std::vector<T> grey(const Tensor& image) {
  const std::int64_t n = area(image);
  const T* p = image.data<T>();
  if (image.size(0) == 1) return {p, p + n};
  std::vector<T> out(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    out[static_cast<std::size_t>(i)] =
        static_cast<T>(0.2989f * static_cast<float>(p[i]) + 0.587f * static_cast<float>(p[n + i]) +
                       0.114f * static_cast<float>(p[2 * n + i]));
  return out;
}

/// factor * image + (1 - factor) * other(index in a channel, index in the image).
template <class T, class Other>
Tensor blend(const Tensor& image, double factor, const Other& other) {
  Tensor out = like(image);
  const T* p = image.data<T>();
  T* q = out.data<T>();
  const std::int64_t n = area(image);
  const auto ratio = static_cast<float>(factor), rest = static_cast<float>(1 - factor);
  for (std::int64_t i = 0; i < image.numel(); ++i)
    q[i] =
        clipped<T>(ratio * static_cast<float>(p[i]) + rest * static_cast<float>(other(i % n, i)));
  return out;
}

void check_factor(double factor, std::string_view op) {
  FERRITE_CHECK(factor >= 0 && std::isfinite(factor), ValueError, op,
                "expected a factor of 0 or more, got {}", factor);
}

/// Applies f to each value; f also gets the index of its channel.
template <class T, class F>
Tensor map_values(const Tensor& image, const F& f) {
  Tensor out = like(image);
  const std::int64_t n = area(image);
  for (std::int64_t i = 0; i < image.numel(); ++i) out.data<T>()[i] = f(image.data<T>()[i], i / n);
  return out;
}

struct Colour {
  float r, g, b;
};

/// RGB to HSV and back with the hue turned (torchvision's _rgb2hsv and _hsv2rgb).
Colour turn_hue(const Colour& c, float turn) {
  const float most = std::max({c.r, c.g, c.b}), least = std::min({c.r, c.g, c.b});
  const float range = most - least;
  if (range == 0) return c;
  const float rc = (most - c.r) / range, gc = (most - c.g) / range, bc = (most - c.b) / range;
  float h = c.r == most ? bc - gc : c.g == most ? 2 + rc - bc : 4 + gc - rc;
  h = std::fmod(h / 6 + 1, 1.0f);
  h = std::fmod(h + turn + 1, 1.0f);
  const float s = range / most, sixth = std::floor(h * 6), f = h * 6 - sixth;
  const auto clip = [](float v) { return std::clamp(v, 0.0f, 1.0f); };
  const float v = most, p = clip(v * (1 - s)), q = clip(v * (1 - s * f)),
              t = clip(v * (1 - s * (1 - f)));
  switch (static_cast<int>(sixth) % 6) {
    case 0:
      return {v, t, p};
    case 1:
      return {q, v, p};
    case 2:
      return {p, v, t};
    case 3:
      return {p, q, v};
    case 4:
      return {t, p, v};
    default:
      return {v, p, q};
  }
}

/// Look-up table of a channel's equalization, empty if its values are too few.
std::vector<std::uint8_t> equalizing(const std::uint8_t* p, std::int64_t n) {
  std::array<std::int64_t, 256> counts{};
  for (std::int64_t i = 0; i < n; ++i) ++counts[p[i]];
  const auto last = std::find_if(counts.rbegin(), counts.rend(), [](auto c) { return c > 0; });
  const std::int64_t step = n == 0 ? 0 : (n - *last) / 255;
  if (step == 0) return {};
  std::vector<std::uint8_t> table(256);
  std::int64_t sum = 0;
  for (std::size_t v = 0; v < 256; sum += counts[v++])
    table[v] = static_cast<std::uint8_t>(
        v == 0 ? 0 : std::min<std::int64_t>((sum + step / 2) / step, 255));
  return table;
}

std::vector<float> gaussian(std::int64_t size, double sigma) {
  std::vector<float> kernel;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto x = static_cast<float>(i - size / 2) / static_cast<float>(sigma);
    kernel.push_back(std::exp(-0.5f * x * x));
  }
  const float sum = std::accumulate(kernel.begin(), kernel.end(), 0.0f);
  for (float& v : kernel) v /= sum;
  return kernel;
}

/// Position i of a line of `size`, reflected at its ends without repeating them.
std::int64_t reflected(std::int64_t i, std::int64_t size) {
  return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
}

template <class T>
void blur(const Tensor& image, const std::vector<float>& kernel, const Tensor& out) {
  const std::int64_t height = image.size(1), width = image.size(2);
  const std::int64_t half = std::ssize(kernel) / 2;
  std::vector<float> rows(static_cast<std::size_t>(height * width));
  for (std::int64_t c = 0; c < image.size(0); ++c) {
    const T* p = image.data<T>() + c * height * width;
    T* q = out.data<T>() + c * height * width;
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x) {
        float sum = 0;
        for (std::int64_t k = -half; k <= half; ++k)
          sum += kernel[static_cast<std::size_t>(k + half)] *
                 static_cast<float>(p[y * width + reflected(x + k, width)]);
        rows[static_cast<std::size_t>(y * width + x)] = sum;
      }
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x) {
        float sum = 0;
        for (std::int64_t k = -half; k <= half; ++k)
          sum += kernel[static_cast<std::size_t>(k + half)] *
                 rows[static_cast<std::size_t>(reflected(y + k, height) * width + x)];
        q[y * width + x] = rounded<T>(sum);
      }
  }
}

/// The mean of a pixel, five times, and its neighbours; at the edges the pixel itself.
template <class T>
Tensor smoothed(const Tensor& image) {
  Tensor out = like(image);
  const std::int64_t height = image.size(1), width = image.size(2);
  std::copy_n(image.data<T>(), image.numel(), out.data<T>());
  for (std::int64_t c = 0; c < image.size(0); ++c)
    for (std::int64_t y = 1; y + 1 < height; ++y)
      for (std::int64_t x = 1; x + 1 < width; ++x) {
        const T* p = image.data<T>() + (c * height + y) * width + x;
        float sum = 4 * static_cast<float>(*p);
        for (std::int64_t dy = -1; dy <= 1; ++dy)
          for (std::int64_t dx = -1; dx <= 1; ++dx) sum += static_cast<float>(p[dy * width + dx]);
        out.data<T>()[(c * height + y) * width + x] = rounded<T>(sum / 13);
      }
  return out;
}

/// A dense image on which the functions below work.
template <class F>
Tensor on_image(const Tensor& image, std::string_view op, const F& f) {
  const Tensor in = dense_image(image, op);
  Tensor out;
  dispatch_image(in, op, [&]<class T>() { out = f.template operator()<T>(in); });
  return out;
}

Tensor bytes_of(const Tensor& image, std::string_view op) {
  const Tensor in = dense_image(image, op);
  FERRITE_CHECK(in.dtype() == kUInt8, DTypeError, op, "expected uint8, got {}", in.describe());
  return in;
}

}  // namespace

Tensor rgb_to_grayscale(const Tensor& image, std::int64_t num_output_channels) {
  FERRITE_CHECK(num_output_channels == 1 || num_output_channels == 3, ValueError,
                "rgb_to_grayscale", "expected 1 or 3 channels out, got {}", num_output_channels);
  return on_image(image, "rgb_to_grayscale", [&]<class T>(const Tensor& in) {
    check_colours(in, "rgb_to_grayscale");
    const std::vector<T> one = grey<T>(in);
    Tensor out =
        empty({num_output_channels, in.size(1), in.size(2)}, {.dtype = in.dtype(), .device = kCPU});
    for (std::int64_t c = 0; c < num_output_channels; ++c)
      std::ranges::copy(one, out.data<T>() + c * area(in));
    return out;
  });
}

Tensor adjust_brightness(const Tensor& image, double factor) {
  check_factor(factor, "adjust_brightness");
  return on_image(image, "adjust_brightness", [&]<class T>(const Tensor& in) {
    return blend<T>(in, factor, [](auto, auto) { return 0; });
  });
}

Tensor adjust_contrast(const Tensor& image, double factor) {
  check_factor(factor, "adjust_contrast");
  return on_image(image, "adjust_contrast", [&]<class T>(const Tensor& in) {
    check_colours(in, "adjust_contrast");
    const std::vector<T> one = grey<T>(in);
    const double mean = std::accumulate(one.begin(), one.end(), 0.0) /
                        static_cast<double>(std::max<std::size_t>(1, one.size()));
    return blend<T>(in, factor, [&](auto, auto) { return static_cast<float>(mean); });
  });
}

Tensor adjust_saturation(const Tensor& image, double factor) {
  check_factor(factor, "adjust_saturation");
  return on_image(image, "adjust_saturation", [&]<class T>(const Tensor& in) {
    check_colours(in, "adjust_saturation");
    if (in.size(0) == 1) return in;
    const std::vector<T> one = grey<T>(in);
    return blend<T>(in, factor,
                    [&](std::int64_t i, auto) { return one[static_cast<std::size_t>(i)]; });
  });
}

Tensor adjust_sharpness(const Tensor& image, double factor) {
  check_factor(factor, "adjust_sharpness");
  return on_image(image, "adjust_sharpness", [&]<class T>(const Tensor& in) {
    if (in.size(1) <= 2 || in.size(2) <= 2) return in;
    const Tensor smooth = smoothed<T>(in);
    return blend<T>(in, factor, [&](auto, std::int64_t i) { return smooth.data<T>()[i]; });
  });
}

Tensor adjust_hue(const Tensor& image, double factor) {
  FERRITE_CHECK(factor >= -0.5 && factor <= 0.5, ValueError, "adjust_hue",
                "expected a part of the circle of -0.5 to 0.5, got {}", factor);
  return on_image(image, "adjust_hue", [&]<class T>(const Tensor& in) {
    check_colours(in, "adjust_hue");
    if (in.size(0) == 1) return in;
    Tensor out = like(in);
    const std::int64_t n = area(in);
    const T* p = in.data<T>();
    T* q = out.data<T>();
    const auto from = [](T v) { return static_cast<float>(v) / kBound<T>; };
    const auto to = [](float v) {
      return static_cast<T>(std::is_integral_v<T> ? v * 255.999f : v);
    };
    for (std::int64_t i = 0; i < n; ++i) {
      const Colour c =
          turn_hue({from(p[i]), from(p[n + i]), from(p[2 * n + i])}, static_cast<float>(factor));
      q[i] = to(c.r), q[n + i] = to(c.g), q[2 * n + i] = to(c.b);
    }
    return out;
  });
}

Tensor posterize(const Tensor& image, int bits) {
  FERRITE_CHECK(bits >= 0 && bits <= 8, ValueError, "posterize", "expected 0 to 8 bits, got {}",
                bits);
  const auto mask = static_cast<std::uint8_t>(0xFF00 >> bits);
  const auto levels = static_cast<float>(1 << bits);
  return on_image(image, "posterize", [&]<class T>(const Tensor& in) {
    return map_values<T>(in, [&](T v, auto) {
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(v & mask);
      else
        return std::clamp(std::floor(v * levels), 0.0f, levels - 1) / levels;
    });
  });
}

Tensor solarize(const Tensor& image, double threshold) {
  return on_image(image, "solarize", [&]<class T>(const Tensor& in) {
    return map_values<T>(in, [&](T v, auto) {
      return static_cast<double>(v) >= threshold ? static_cast<T>(kBound<T> - v) : v;
    });
  });
}

Tensor autocontrast(const Tensor& image) {
  return on_image(image, "autocontrast", [&]<class T>(const Tensor& in) {
    std::vector<std::pair<float, float>> offset_and_scale;
    for (std::int64_t c = 0; c < in.size(0); ++c) {
      const T* p = in.data<T>() + c * area(in);
      if (area(in) == 0) break;
      const auto [low, high] = std::minmax_element(p, p + area(in));
      if (*low == *high)
        offset_and_scale.emplace_back(0.0f, 1.0f);
      else
        offset_and_scale.emplace_back(
            static_cast<float>(*low),
            kBound<T> / (static_cast<float>(*high) - static_cast<float>(*low)));
    }
    return map_values<T>(in, [&](T v, std::int64_t c) {
      const auto& [offset, scale] = offset_and_scale[static_cast<std::size_t>(c)];
      return clipped<T>((static_cast<float>(v) - offset) * scale);
    });
  });
}

Tensor equalize(const Tensor& image) {
  if (dense_image(image, "equalize").dtype() == kFloat32)
    return ConvertImageDtype(kFloat32)(equalize(ConvertImageDtype(kUInt8)(image)));
  const Tensor in = bytes_of(image, "equalize");
  std::vector<std::vector<std::uint8_t>> tables;
  for (std::int64_t c = 0; c < in.size(0); ++c)
    tables.push_back(equalizing(in.data<std::uint8_t>() + c * area(in), area(in)));
  return map_values<std::uint8_t>(in, [&](std::uint8_t v, std::int64_t c) {
    const auto& table = tables[static_cast<std::size_t>(c)];
    return table.empty() ? v : table[v];
  });
}

Tensor gaussian_blur(const Tensor& image, std::int64_t kernel_size, double sigma) {
  FERRITE_CHECK(kernel_size > 0 && kernel_size % 2 == 1 && sigma > 0, ValueError, "gaussian_blur",
                "expected an odd size and a sigma above 0, got {} and {}", kernel_size, sigma);
  return on_image(image, "gaussian_blur", [&]<class T>(const Tensor& in) {
    FERRITE_CHECK(std::min(in.size(1), in.size(2)) > kernel_size / 2, ShapeError, "gaussian_blur",
                  "expected an image larger than half of the kernel of {}, got {}", kernel_size,
                  in.describe());
    Tensor out = like(in);
    blur<T>(in, gaussian(kernel_size, sigma), out);
    return out;
  });
}

Grayscale::Grayscale(std::int64_t num_output_channels) : channels_(num_output_channels) {
  FERRITE_CHECK(channels_ == 1 || channels_ == 3, ValueError, "grayscale",
                "expected 1 or 3 channels out, got {}", channels_);
}

Tensor Grayscale::apply(const Tensor& image, Generator&) const {
  return rgb_to_grayscale(image, channels_);
}

RandomGrayscale::RandomGrayscale(double p) : p_(p) { check_probability(p, "random_grayscale"); }

Tensor RandomGrayscale::apply(const Tensor& image, Generator& random) const {
  return random.next_double() < p_ ? rgb_to_grayscale(image, image.size(0)) : image;
}

ColorJitter::ColorJitter(const ColorJitterOptions& options) : options_(options) {
  const auto& [brightness, contrast, saturation, hue] = options;
  FERRITE_CHECK(std::min({brightness, contrast, saturation, hue}) >= 0 && hue <= 0.5, ValueError,
                "color_jitter",
                "expected values of 0 or more and a hue of at most 0.5, got {}, {}, {} and {}",
                brightness, contrast, saturation, hue);
}

Tensor ColorJitter::apply(const Tensor& image, Generator& random) const {
  Tensor out = image;
  const auto factor = [&](double x) { return uniform(random, std::max(0.0, 1 - x), 1 + x); };
  for (const std::int64_t which : random.permutation(4)) {
    if (which == 0 && options_.brightness > 0)
      out = adjust_brightness(out, factor(options_.brightness));
    if (which == 1 && options_.contrast > 0) out = adjust_contrast(out, factor(options_.contrast));
    if (which == 2 && options_.saturation > 0)
      out = adjust_saturation(out, factor(options_.saturation));
    if (which == 3 && options_.hue > 0)
      out = adjust_hue(out, uniform(random, -options_.hue, options_.hue));
  }
  return out;
}

GaussianBlur::GaussianBlur(std::int64_t kernel_size, std::array<double, 2> sigma)
    : kernel_size_(kernel_size), sigma_(sigma) {
  FERRITE_CHECK(kernel_size > 0 && kernel_size % 2 == 1 && sigma[0] > 0 && sigma[0] <= sigma[1],
                ValueError, "gaussian_blur",
                "expected an odd size and sigmas of 0 < low <= high, got {}, {} and {}",
                kernel_size, sigma[0], sigma[1]);
}

Tensor GaussianBlur::apply(const Tensor& image, Generator& random) const {
  return gaussian_blur(image, kernel_size_, uniform(random, sigma_[0], sigma_[1]));
}

}  // namespace ferrite::data
