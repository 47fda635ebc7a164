#include "ferrite/data/synthetic_digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace ferrite::data {

namespace {

constexpr int kDigitSide = 28;
constexpr int kPixels = kDigitSide * kDigitSide;

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;  // a polyline in the unit square, y downwards

/// Part of an ellipse; degrees, clockwise from the right.
void append_arc(Stroke& stroke, Point centre, Point radius, double from, double to) {
  const int steps = std::max(3, static_cast<int>(std::abs(to - from) / 20));
  for (int i = 0; i <= steps; ++i) {
    const double t = (from + (to - from) * i / steps) * std::numbers::pi / 180;
    stroke.push_back({centre.x + radius.x * std::cos(t), centre.y + radius.y * std::sin(t)});
  }
}

Stroke arc(Point centre, Point radius, double from, double to) {
  Stroke stroke;
  append_arc(stroke, centre, radius, from, to);
  return stroke;
}

/// The strokes of a digit; `style` in [0, 1) selects a handwriting variant.
std::vector<Stroke> skeleton(int digit, double style) {
  const bool alternative = style < 0.35;
  switch (digit) {
    case 0:
      return {arc({0.5, 0.5}, {alternative ? 0.19 : 0.26, 0.38}, -80, 285)};
    case 1:
      if (style < 0.5) return {{{0.5, 0.12}, {0.5, 0.88}}};
      if (style < 0.75) return {{{0.36, 0.27}, {0.52, 0.12}, {0.52, 0.88}}};
      return {{{0.36, 0.27}, {0.52, 0.12}, {0.52, 0.88}}, {{0.34, 0.88}, {0.7, 0.88}}};
    case 2: {
      Stroke stroke = arc({0.5, 0.33}, {0.24, 0.21}, 190, 390);
      if (alternative)
        append_arc(stroke, {0.36, 0.8}, {0.09, 0.08}, -60, -330);
      else
        stroke.push_back({0.27, 0.87});
      stroke.push_back({0.77, 0.86});
      return {stroke};
    }
    case 3: {
      Stroke stroke = alternative ? Stroke{{0.28, 0.13}, {0.7, 0.13}, {0.48, 0.43}}
                                  : arc({0.47, 0.31}, {0.22, 0.19}, 200, 440);
      append_arc(stroke, {0.47, 0.67}, {0.26, 0.22}, 275, 510);
      return {stroke};
    }
    case 4:
      if (alternative)
        return {{{0.3, 0.14}, {0.27, 0.52}, {0.74, 0.5}}, {{0.7, 0.14}, {0.68, 0.9}}};
      return {{{0.8, 0.64}, {0.22, 0.64}, {0.62, 0.12}, {0.62, 0.9}}};
    case 5: {
      Stroke stroke = {{0.72, 0.13}, {0.35, 0.13}, {0.31, 0.48}};
      append_arc(stroke, {0.48, 0.65}, {0.25, alternative ? 0.19 : 0.23}, 225, 510);
      return {stroke};
    }
    case 6: {
      Stroke stroke = arc({0.72, 0.56}, {0.44, 0.46}, 262, 180);
      append_arc(stroke, {0.5, 0.66}, {0.22, alternative ? 0.17 : 0.22}, 180, -190);
      return {stroke};
    }
    case 7: {
      std::vector<Stroke> strokes = {{{0.24, 0.15}, {0.76, 0.15}, {0.56, 0.5}, {0.44, 0.88}}};
      if (alternative) strokes.push_back({{0.36, 0.5}, {0.72, 0.48}});
      return strokes;
    }
    case 8: {
      Stroke stroke = arc({0.5, 0.31}, {0.19, 0.18}, 90, 450);
      append_arc(stroke, {0.5, 0.68}, {alternative ? 0.2 : 0.24, 0.2}, 270, 630);
      return {stroke};
    }
    default: {
      Stroke stroke = arc({0.48, 0.33}, {0.22, 0.2}, 0, -350);
      stroke.push_back({0.7, 0.33});
      if (alternative)
        append_arc(stroke, {0.46, 0.66}, {0.23, 0.22}, 0, 140);
      else
        stroke.push_back({0.62, 0.88});
      return {stroke};
    }
  }
}

/// Draws random numbers from named ranges.
class Dice {
 public:
  explicit Dice(const Generator& random) : random_(random) {}
  double in(double low, double high) { return low + (high - low) * random_.next_double(); }
  double around(double deviation) {
    return deviation * std::clamp(random_.next_normal(), -2.5, 2.5);
  }
  bool happens(double p) { return random_.next_double() < p; }
  Generator& generator() { return random_; }

 private:
  Generator random_;
};

/// Maps the unit square to pixels: bent by two waves, then an affine map about the centre.
class Distortion {
 public:
  explicit Distortion(Dice& dice) {
    const double angle = dice.around(0.17), shear = dice.around(0.18);
    const double size_x = 20 * dice.in(0.7, 1.15), size_y = 20 * dice.in(0.75, 1.1);
    a_ = size_x * std::cos(angle), b_ = size_x * (shear - std::sin(angle));
    c_ = size_y * std::sin(angle), d_ = size_y * std::cos(angle);
    x_ = 13.5 + dice.around(1.3), y_ = 13.5 + dice.around(1.3);
    for (Wave& w : waves_) w = {dice.around(0.04), dice.in(3, 8), dice.in(0, 2 * std::numbers::pi)};
  }
  Point operator()(Point p) const {
    const double x = p.x - 0.5 + waves_[0].at(p.y), y = p.y - 0.5 + waves_[1].at(p.x);
    return {x_ + a_ * x + b_ * y, y_ + c_ * x + d_ * y};
  }

 private:
  struct Wave {
    double amplitude, frequency, phase;
    double at(double t) const { return amplitude * std::sin(frequency * t + phase); }
  };
  double a_, b_, c_, d_, x_, y_;
  std::array<Wave, 2> waves_;
};

using Canvas = std::array<float, kPixels>;  // coverage, 0 to 1

/// Adds the segment a-b as a capsule with soft edges.
void draw_segment(Canvas& canvas, Point a, Point b, double half_width) {
  const double reach = half_width + 1;
  const auto low = [&](double v) {
    return std::clamp(static_cast<int>(v - reach), 0, kDigitSide - 1);
  };
  const auto high = [&](double v) {
    return std::clamp(static_cast<int>(v + reach) + 1, 0, kDigitSide - 1);
  };
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double length2 = std::max(dx * dx + dy * dy, 1e-9);
  // Squared distances above which nothing, and below which everything, is certainly covered.
  const double outside = std::pow(half_width + 0.5, 2) * (1 + 1e-9);
  const double inside = half_width > 0.5 ? std::pow(half_width - 0.5, 2) * (1 - 1e-9) : -1;
  for (int y = low(std::min(a.y, b.y)); y <= high(std::max(a.y, b.y)); ++y)
    for (int x = low(std::min(a.x, b.x)); x <= high(std::max(a.x, b.x)); ++x) {
      const double px = x - a.x, py = y - a.y;
      const double t = std::clamp((px * dx + py * dy) / length2, 0.0, 1.0);
      const double off_x = px - t * dx, off_y = py - t * dy;
      const double squared = off_x * off_x + off_y * off_y;
      if (squared > outside) continue;
      const double cover =
          squared < inside ? 1 : std::clamp(half_width + 0.5 - std::sqrt(squared), 0.0, 1.0);
      float& pixel = canvas[static_cast<std::size_t>(y * kDigitSide + x)];
      pixel = std::max(pixel, static_cast<float>(cover));
    }
}

/// Short dim strokes that belong to no digit.
void draw_strays(Canvas& canvas, Dice& dice) {
  for (int i = 0; i < 2; ++i) {
    if (!dice.happens(0.3)) continue;
    Canvas stray{};
    const Point a{dice.in(0, kDigitSide), dice.in(0, kDigitSide)};
    const Point b{a.x + dice.in(-6, 6), a.y + dice.in(-6, 6)};
    draw_segment(stray, a, b, dice.in(0.3, 0.8));
    const auto brightness = static_cast<float>(dice.in(0.3, 0.8));
    for (std::size_t k = 0; k < stray.size(); ++k)
      canvas[k] = std::max(canvas[k], brightness * stray[k]);
  }
}

/// Converts to bytes, with noise of the given amplitude: the sum of two uniform numbers per pixel.
void write_noisy(const Canvas& canvas, Generator& random, double brightness, double noise,
                 std::uint8_t* out) {
  const PhiloxState state = random.reserve(kPixels / 2);
  for (std::size_t i = 0; i < canvas.size(); i += 2) {
    const PhiloxBlock block = philox(state.seed, state.offset + i / 2);
    for (std::size_t k = 0; k < 2; ++k) {
      const double offset = noise * (static_cast<double>(philox_uniform(block.v[2 * k])) +
                                     static_cast<double>(philox_uniform(block.v[2 * k + 1])) - 1);
      const double value = 255 * (brightness * static_cast<double>(canvas[i + k]) + offset);
      out[i + k] = static_cast<std::uint8_t>(std::clamp(value + 0.5, 0.0, 255.0));
    }
  }
}

/// The digits of samples 0 to n - 1; each run of ten is a shuffle of all digits.
Tensor labels_of(std::int64_t n, std::uint64_t seed) {
  FERRITE_CHECK(n >= 0, ValueError, "synthetic_digits", "expected 0 or more images, got {}", n);
  Tensor labels = empty({n}, {.dtype = kInt64, .device = kCPU});
  auto* label = labels.data<std::int64_t>();
  for (std::int64_t i = 0; i < n; i += 10) {
    Generator random = Epoch{seed, -1}.generator(i / 10);
    const std::vector<std::int64_t> digits = random.permutation(10);
    std::copy_n(digits.begin(), std::min<std::int64_t>(10, n - i), label + i);
  }
  return labels;
}

void draw_digit(std::uint64_t seed, std::int64_t index, int digit, std::uint8_t* out) {
  Dice dice(Epoch{seed, 0}.generator(index));
  const Distortion distort(dice);
  const double half_width = dice.in(0.55, 1.55);
  Canvas canvas{};
  for (const Stroke& stroke : skeleton(digit, dice.in(0, 1)))
    for (std::size_t i = 0; i + 1 < stroke.size(); ++i) {
      // Long segments are subdivided, so that they bend too.
      const Point a = stroke[i], b = stroke[i + 1];
      const int pieces = 1 + static_cast<int>(std::hypot(b.x - a.x, b.y - a.y) / 0.12);
      for (int k = 0; k < pieces; ++k) {
        const auto at = [&](int step) {
          const double t = static_cast<double>(step) / pieces;
          return distort({a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t});
        };
        draw_segment(canvas, at(k), at(k + 1), half_width);
      }
    }
  draw_strays(canvas, dice);
  const double brightness = dice.in(0.65, 1.0), noise = dice.in(0, 0.3);
  write_noisy(canvas, dice.generator(), brightness, noise, out);
}

}  // namespace

SyntheticDigits::SyntheticDigits(std::int64_t n, std::uint64_t seed, Transform transform)
    : SyntheticDigits(labels_of(n, seed), seed, transform) {}

SyntheticDigits::SyntheticDigits(const Tensor& labels, std::uint64_t seed,
                                 const Transform& transform)
    : ImageDataset(
          // A separate copy: writes to labels() must not change images.
          [digits = labels.to_vector<std::int64_t>(), seed](std::int64_t i, std::uint8_t* pixels) {
            draw_digit(seed, i, static_cast<int>(digits[static_cast<std::size_t>(i)]), pixels);
          },
          {1, kDigitSide, kDigitSide}, labels, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
          transform) {}

}  // namespace ferrite::data
