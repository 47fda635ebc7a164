// The result of a convolution for an image has the same bits in any batch and at any position in
// it: forward, and the input gradient.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/kernels/conv.h"
#include "ferrite/ops/creation.h"

using namespace ferrite;
using kernels::Activation;
using kernels::ConvAlgorithm;
using kernels::ConvParams;

namespace {

struct Choice {
  explicit Choice(ConvAlgorithm algorithm) { kernels::set_conv_algorithm(algorithm); }
  ~Choice() { kernels::set_conv_algorithm(before); }
  ConvAlgorithm before = kernels::conv_algorithm();
};

/// The layout of images: NCHW, NHWC, or as parts of wider NHWC images.
enum class Lie { planes, pixels, parts };

struct Case {
  std::int64_t images, c, h, w, o, kh, kw;
  ConvParams params;
  DType dtype = kFloat32;
  Lie lie = Lie::pixels;
  bool infinite = false;  // whether a weight is infinite

  std::int64_t extent(std::size_t i) const {
    const std::int64_t size = i ? w : h, kernel = i ? kw : kh;
    return (size + 2 * params.padding[i] - params.dilation[i] * (kernel - 1) - 1) /
               params.stride[i] +
           1;
  }
  Shape input(std::int64_t n) const { return {n, c, h, w}; }
  Shape output(std::int64_t n) const { return {n, o, extent(0), extent(1)}; }
  Shape weight() const { return {o, c / params.groups, kh, kw}; }
};

Tensor laid(const Shape& shape, DType dtype, Lie lie) {
  if (lie != Lie::parts)
    return empty(
        shape, {.dtype = dtype, .memory_format = lie == Lie::pixels ? kChannelsLast : kContiguous});
  return empty({shape[0], shape[1] + 3, shape[2] + 1, shape[3] + 2},
               {.dtype = dtype, .memory_format = kChannelsLast})
      .narrow(1, 2, shape[1])
      .narrow(2, 1, shape[2])
      .narrow(3, 1, shape[3]);
}

Tensor values(const Shape& shape, DType dtype, Lie lie, std::uint64_t seed) {
  std::vector<float> v(static_cast<std::size_t>(shape.numel()));
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761u + 1;
  for (float& x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) * 0x1p-23f - 1;
  }
  const Tensor t = laid(shape, dtype, lie);
  t.copy_(from_vector(v, shape));
  return t;
}

/// "" if the dense tensors have the same bits (any NaN equals any NaN), else where they differ.
std::string difference(const Tensor& actual, const Tensor& expected) {
  const Tensor a = actual.contiguous(), e = expected.contiguous();
  const std::size_t bytes = static_cast<std::size_t>(a.numel()) * itemsize(a.dtype());
  if (std::memcmp(a.data_ptr(), e.data_ptr(), bytes) == 0) return "";
  const auto x = a.to_vector<double>(), y = e.to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i)
    if ((x[i] != y[i] || std::signbit(x[i]) != std::signbit(y[i])) &&
        !(std::isnan(x[i]) && std::isnan(y[i])))
      return "element " + std::to_string(i) + " of " + std::to_string(x.size()) + ": " +
             std::to_string(x[i]) + " off by " + std::to_string((x[i] - y[i]) * 1e9) + "e-9";
  return "";
}

/// The whole batch, and parts of it: single images, and some at other positions.
void check(const Case& k, std::uint64_t seed) {
  INFO("images ", k.images, " c ", k.c, " h ", k.h, " w ", k.w, " o ", k.o, " k ", k.kh, "x", k.kw,
       " stride ", k.params.stride[0], ",", k.params.stride[1], " padding ", k.params.padding[0],
       ",", k.params.padding[1], " dilation ", k.params.dilation[0], ",", k.params.dilation[1],
       " groups ", k.params.groups, " ", name(k.dtype), " lie ", static_cast<int>(k.lie),
       " infinite ", k.infinite, " algorithm ", static_cast<int>(kernels::conv_algorithm()));
  const Tensor x = values(k.input(k.images), k.dtype, k.lie, seed + 1),
               g = values(k.output(k.images), k.dtype, k.lie, seed + 2),
               w = values(k.weight(), k.dtype, k.lie == Lie::planes ? Lie::planes : Lie::pixels,
                          seed + 3),
               b = values({k.o}, k.dtype, Lie::planes, seed + 4),
               b_data = values({k.c}, k.dtype, Lie::planes, seed + 5);
  if (k.infinite) w.select(0, 0).select(0, 0).select(0, 0).select(0, 0).fill_(INFINITY);
  ConvParams linear = k.params;
  linear.activation = Activation::none;
  const auto run = [&](const Tensor& input, const Tensor& grad) {
    const std::int64_t count = input.size(0);
    const Tensor out = laid(k.output(count), k.dtype, k.lie),
                 data = laid(k.input(count), k.dtype, k.lie);
    kernels::conv2d(Stream(), out, input, w, b, k.params);
    if (seed % 2)
      kernels::conv2d_data(Stream(), data, grad, w, b_data, linear);
    else
      kernels::conv2d_data(Stream(), data, grad, w, {}, linear);
    return std::pair{out, data};
  };
  const auto [out, data] = run(x, g);
  struct Part {
    std::int64_t first, end, step;
  };
  const std::int64_t n = k.images;
  for (const auto& [first, end, step] : {Part{0, 1, 1}, Part{n - 1, n, 1}, Part{n / 3, n, 2},
                                         Part{n / 4, 3 * n / 4 + 1, 1}, Part{n - n % 9, n, 1}}) {
    if (first >= end) continue;
    CAPTURE(first);
    CAPTURE(end);
    CAPTURE(step);
    const auto part = [&](const Tensor& of) { return of.slice(0, first, end, step); };
    const auto [part_out, part_data] = run(part(x), part(g));
    const std::string forward = difference(part_out, part(out)),
                      by_input = difference(part_data, part(data));
    CHECK_MESSAGE(forward.empty(), "forward: ", forward);
    CHECK_MESSAGE(by_input.empty(), "by the input: ", by_input);
  }
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : generator_(seed) {}
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    const double x = generator_.next_double() * static_cast<double>(high - low + 1);
    return std::min(high, low + static_cast<std::int64_t>(x));
  }
  template <class T>
  T pick(std::initializer_list<T> of) {
    return of.begin()[integer(0, static_cast<std::int64_t>(of.size()) - 1)];
  }

 private:
  Generator generator_;
};

constexpr auto kAlgorithms = {ConvAlgorithm::automatic, ConvAlgorithm::direct,
                              ConvAlgorithm::winograd_2x2, ConvAlgorithm::winograd_4x4};

/// Any shape with about `products` multiplications for the whole batch.
Case draw_case(Draw& d, double products) {
  Case k{};
  k.params.groups = d.pick<std::int64_t>({1, 1, 1, 2, 5});
  const std::int64_t wide = k.params.groups > 1 ? 6 : 40;
  k.c = k.params.groups * d.integer(1, wide);
  k.o = d.pick({true, false, false}) ? k.c : k.params.groups * d.integer(1, wide);
  if (d.pick({true, false, false, false, false})) k.o = k.params.groups = k.c;  // depthwise
  const bool tiles = d.pick({true, false});  // supported by Winograd's algorithm
  const std::int64_t taps = d.pick({3, 3, 5});
  k.kh = tiles ? taps : d.integer(1, 4);
  k.kw = tiles ? taps : d.integer(1, 4);
  for (std::size_t i = 0; i < 2; ++i) {
    k.params.stride[i] = tiles ? 1 : d.integer(1, 3);
    k.params.padding[i] = d.integer(0, 2);
    k.params.dilation[i] = tiles ? 1 : d.pick<std::int64_t>({1, 1, 2});
    const std::int64_t reach = k.params.dilation[i] * ((i ? k.kw : k.kh) - 1) + 1;
    (i ? k.w : k.h) = std::max<std::int64_t>(1, reach - 2 * k.params.padding[i]) + d.integer(0, 11);
  }
  k.dtype = d.pick({kFloat32, kFloat32, kFloat64, kFloat16, kBFloat16});
  k.lie = d.pick({Lie::planes, Lie::pixels, Lie::pixels, Lie::parts});
  k.infinite = d.pick({true, false, false});
  k.params.activation = d.pick({Activation::none, Activation::relu});
  const double of_image =
      static_cast<double>(k.output(1).numel() * k.c / k.params.groups * k.kh * k.kw);
  k.images = std::clamp(static_cast<std::int64_t>(products / of_image), std::int64_t{1},
                        d.integer(1, 300));
  return k;
}

}  // namespace

TEST_CASE("convolutions of an image have the same bits in every batch and position, by seed") {
  Draw d(1);
  for (std::uint64_t trial = 0; trial < 120; ++trial) {
    const Case k = draw_case(d, 4e6);
    const Choice use(d.pick(kAlgorithms));
    CAPTURE(trial);
    check(k, trial);
  }
}

TEST_CASE(
    "convolutions of an image have the same bits in every batch, if the batch determines the "
    "work") {
  // Small images of many channels, whose weights exceed a cache; filters that take longer to
  // transform than few images to convolve; single rows; groups of two channels.
  const ConvParams same{.padding = {1, 1}}, halves{.stride = {2, 2}, .padding = {1, 1}};
  ConvParams pairs = same;
  pairs.groups = 6;
  const Case cases[] = {
      {65, 150, 2, 2, 210, 3, 3, halves}, {9, 64, 6, 6, 72, 3, 3, same},
      {17, 96, 4, 4, 96, 3, 3, same},     {40, 8, 8, 8, 16, 3, 3, same},
      {40, 16, 5, 5, 9, 3, 3, same},      {12, 20, 1, 7, 24, 3, 3, same},
      {31, 12, 7, 7, 12, 3, 3, pairs},    {300, 9, 3, 3, 18, 3, 3, halves},
      {60, 20, 13, 13, 50, 5, 5, {}},     {30, 30, 7, 7, 40, 5, 5, {.padding = {2, 2}}},
  };
  std::uint64_t seed = 0;
  for (Case k : cases)
    for (const Lie lie : {Lie::planes, Lie::pixels}) {
      const Choice use(ConvAlgorithm::automatic);
      k.lie = lie;
      k.infinite = ++seed % 3 == 0;
      check(k, seed);
    }
}
