// Winograd convolutions against direct ones in float64.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/conv.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using ferrite::test::check_equal;
using kernels::Activation;
using kernels::ConvAlgorithm;
using kernels::ConvParams;

namespace {

struct Algorithm {
  explicit Algorithm(ConvAlgorithm algorithm) { kernels::set_conv_algorithm(algorithm); }
  ~Algorithm() { kernels::set_conv_algorithm(before); }
  ConvAlgorithm before = kernels::conv_algorithm();
};

struct Threads {
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(before); }
  int before = num_threads();
};

struct Case {
  std::int64_t n, c, h, w, o, top = 1, left = 1, groups = 1, taps = 3;
  Activation activation = Activation::none;
  bool biased = true;

  Shape input() const { return {n, c, h, w}; }
  Shape weight() const { return {o, c / groups, taps, taps}; }
  Shape out() const { return {n, o, h + 2 * top - taps + 1, w + 2 * left - taps + 1}; }
  ConvParams params() const {
    return {.padding = {top, left}, .groups = groups, .activation = activation};
  }
};

using Lay = std::function<Tensor(const Tensor&)>;

Tensor values(const Shape& shape, std::uint64_t seed) {
  Generator generator(seed);
  std::vector<double> v(static_cast<std::size_t>(shape.numel()));
  for (double& x : v) x = 2 * generator.next_double() - 1;
  return from_vector(v, shape);
}

Tensor as_is(const Tensor& t) { return t.clone(); }
Tensor channels_last(const Tensor& t) { return t.to(kChannelsLast); }
/// The same values at every other position of a larger tensor.
Tensor spread(const Tensor& t) {
  Shape shape = t.shape();
  for (std::int64_t& s : shape) s *= 2;
  Tensor view = empty(shape, {.dtype = t.dtype()});
  for (int d = 0; d < t.dim(); ++d) view = view.slice(d, 0, INT64_MAX, 2);
  view.copy_(t);
  return view;
}
/// A part of wider channels-last images.
Tensor inner(const Tensor& t) {
  const Shape& s = t.shape();
  const Tensor wide = empty({s[0], s[1] + 5, s[2] + 1, s[3] + 2},
                            {.dtype = t.dtype(), .memory_format = kChannelsLast});
  Tensor view = wide.narrow(1, 3, s[1]).narrow(2, 1, s[2]).narrow(3, 1, s[3]);
  view.copy_(t);
  return view;
}

/// Forward and the input gradient, in this dtype.
std::vector<Tensor> run(const Case& k, DType dtype, const Lay& lay) {
  const Stream stream;
  const auto operand = [&](const Shape& shape, std::uint64_t seed) {
    return lay(values(shape, seed).to(dtype));
  };
  const Tensor x = operand(k.input(), 1), w = operand(k.weight(), 2), g = operand(k.out(), 3);
  const Tensor out = lay(full(k.out(), 7, {.dtype = dtype})),
               data = lay(full(k.input(), 7, {.dtype = dtype}));
  const Tensor b = values({k.o}, 4).to(dtype), b_data = values({k.c}, 5).to(dtype);
  if (k.biased) {
    kernels::conv2d(stream, out, x, w, b, k.params());
    kernels::conv2d_data(stream, data, g, w, b_data, k.params());
  } else {
    kernels::conv2d(stream, out, x, w, {}, k.params());
    kernels::conv2d_data(stream, data, g, w, {}, k.params());
  }
  return {out, data};
}

/// The root of the mean of the squared error.
double rms_error(const Tensor& actual, const Tensor& expected) {
  const auto a = actual.to_vector<double>(), e = expected.to_vector<double>();
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - e[i]) * (a[i] - e[i]);
  return std::sqrt(sum / static_cast<double>(std::max<std::size_t>(1, a.size())));
}

void check(const Case& k, const std::vector<DType>& dtypes, const std::vector<Lay>& layouts) {
  INFO("n ", k.n, " c ", k.c, " h ", k.h, " w ", k.w, " o ", k.o, " padding ", k.top, ",", k.left,
       " groups ", k.groups, " taps ", k.taps);
  const auto expected = [&] {
    Algorithm use(ConvAlgorithm::direct);
    return run(k, kFloat64, as_is);
  }();
  for (const ConvAlgorithm algorithm : {ConvAlgorithm::winograd_2x2, ConvAlgorithm::winograd_4x4}) {
    if (k.taps == 5 && algorithm == ConvAlgorithm::winograd_4x4) continue;
    Algorithm use(algorithm);
    CAPTURE(static_cast<int>(algorithm));
    for (const DType dtype : dtypes)
      for (std::size_t l = 0; l < layouts.size(); ++l) {
        CAPTURE(l);
        CAPTURE(name(dtype));
        const auto actual = run(k, dtype, layouts[l]);
        const double rounding = dtype == kFloat64 ? 2.3e-16 : 1.2e-7;
        const std::int64_t depths[] = {k.c / k.groups, k.o / k.groups};
        for (std::size_t i = 0; i < actual.size(); ++i) {
          // Sums of taps^2 depth terms in [-1, 1].
          const double size =
              static_cast<double>(k.taps) * std::sqrt(static_cast<double>(depths[i]));
          CHECK(rms_error(actual[i], expected[i]) <= 16 * rounding * size);
          test::check_close(actual[i], expected[i].to_vector<double>(), 0, 128 * rounding * size);
        }
      }
  }
}

}  // namespace

TEST_CASE("Winograd: images of every size about a tile, every padding") {
  for (std::int64_t h = 1; h <= 9; ++h)
    for (std::int64_t w = 1; w <= 9; w += h % 2 + 1)
      for (const auto& [top, left] : {std::pair<int, int>{1, 1}, {0, 2}, {2, 0}, {2, 1}, {0, 0}})
        if (h + 2 * top >= 3 && w + 2 * left >= 3)
          check({2, 3, h, w, 5, top, left}, {kFloat32}, {channels_last});
}

TEST_CASE("Winograd: 5 x 5 taps, images of every size about a tile, every padding") {
  for (std::int64_t h = 1; h <= 9; ++h)
    for (std::int64_t w = 1; w <= 9; w += h % 2 + 1)
      for (const auto& [top, left] :
           {std::pair<int, int>{2, 2}, {0, 4}, {4, 0}, {3, 2}, {1, 0}, {0, 0}})
        if (h + 2 * top >= 5 && w + 2 * left >= 5)
          check({.n = 2, .c = 3, .h = h, .w = w, .o = 5, .top = top, .left = left, .taps = 5},
                {kFloat32}, {channels_last});
}

TEST_CASE("Winograd: channels that fill vectors and that do not, every layout and dtype") {
  for (const std::int64_t c : {1, 15, 16, 17, 40})
    for (const std::int64_t o : {1, 16, 31, 33, 64, 70})
      check({c % 3 + 1, c, 7, 6, o}, {kFloat32}, {channels_last});
  for (const Case& k : {Case{2, 19, 7, 10, 37}, Case{1, 33, 6, 5, 20, 2, 0}, Case{3, 1, 9, 4, 2}})
    check(k, {kFloat32, kFloat64}, {as_is, channels_last, spread, inner});
  for (const std::int64_t padding : {0, 2})
    for (const std::int64_t c : {1, 16, 20, 35}) {
      const Case k{
          .n = 3, .c = c, .h = 9, .w = 8, .o = 50, .top = padding, .left = padding, .taps = 5};
      check(k, {kFloat32, kFloat64}, {as_is, channels_last, spread, inner});
    }
}

TEST_CASE("Winograd: groups, relu, no bias, negative padding") {
  Case k{2, 6, 7, 7, 10, 1, 1, 2};
  check(k, {kFloat32}, {as_is, channels_last});
  k.activation = Activation::relu;
  check(k, {kFloat32}, {as_is, channels_last});
  k.biased = false;
  check(k, {kFloat32}, {as_is, channels_last});
  // The input gradient has a padding of -1.
  check({1, 4, 5, 6, 3, 3, 3}, {kFloat32}, {as_is, channels_last});
  Case five{.n = 3, .c = 6, .h = 9, .w = 11, .o = 10, .top = 0, .left = 1, .groups = 2, .taps = 5};
  check(five, {kFloat32}, {as_is, channels_last});
  five.biased = false;
  check(five, {kFloat32}, {as_is, channels_last});
}

TEST_CASE("Winograd: filters beyond a cache, channels and tiles in several parts") {
  check({35, 130, 8, 7, 182}, {kFloat32}, {channels_last});
  check({2, 300, 4, 4, 100}, {kFloat32}, {as_is, channels_last});
  for (const std::int64_t padding : {0, 2})
    check({.n = 35, .c = 130, .h = 8, .w = 9, .o = 182, .top = padding, .left = padding, .taps = 5},
          {kFloat32}, {channels_last});
}

TEST_CASE("Winograd: automatic choices round like direct sums, forced tiles as documented") {
  for (const std::int64_t c : {4, 8, 16, 32, 48, 64, 96, 128, 256}) {
    CAPTURE(c);
    const Case k{.n = 2, .c = c, .h = 13, .w = 12, .o = c, .biased = false};
    const auto run_by = [&](ConvAlgorithm algorithm, DType dtype) {
      Algorithm use(algorithm);
      return run(k, dtype, channels_last);
    };
    const auto exact = run_by(ConvAlgorithm::direct, kFloat64);
    // Forward and input gradient, relative to the error of direct sums.
    const auto check_error = [&](ConvAlgorithm algorithm, double most) {
      CAPTURE(static_cast<int>(algorithm));
      const auto direct = run_by(ConvAlgorithm::direct, kFloat32),
                 actual = run_by(algorithm, kFloat32);
      for (std::size_t i = 0; i < exact.size(); ++i)
        CHECK(rms_error(actual[i], exact[i]) <= most * rms_error(direct[i], exact[i]));
    };
    check_error(ConvAlgorithm::automatic, c < 128 ? 1.7 : 1.25);
    if (c < 16) continue;  // direct input gradients sum the taps separately, with smaller errors
    check_error(ConvAlgorithm::winograd_2x2, 1);
    check_error(ConvAlgorithm::winograd_4x4, c < 64 ? 3 : c < 128 ? 1.7 : 1.25);
  }
}

TEST_CASE("Winograd: 5 x 5 taps round like direct sums where they are chosen") {
  for (const std::int64_t padding : {0, 2})
    for (const std::int64_t c : {6, 20, 24, 32, 64, 128}) {
      CAPTURE(padding);
      CAPTURE(c);
      const Case k{.n = 2,
                   .c = c,
                   .h = 13,
                   .w = 13,
                   .o = c + 30,
                   .top = padding,
                   .left = padding,
                   .taps = 5,
                   .biased = false};
      const auto run_by = [&](ConvAlgorithm algorithm, DType dtype) {
        Algorithm use(algorithm);
        return run(k, dtype, channels_last);
      };
      const auto exact = run_by(ConvAlgorithm::direct, kFloat64),
                 chosen = run_by(ConvAlgorithm::automatic, kFloat32);
      auto direct = run_by(ConvAlgorithm::direct, kFloat32);
      // The engine `columns` sums the taps of an input gradient separately, with smaller errors.
      // Direct sums are those of the correlation with the turned filter.
      Algorithm use(ConvAlgorithm::direct);
      const std::int64_t around = 4 - padding;
      kernels::conv2d(
          Stream(), direct[1], channels_last(values(k.out(), 3).to(kFloat32)),
          channels_last(values(k.weight(), 2).to(kFloat32).flip({2, 3}).transpose(0, 1)), {},
          {.padding = {around, around}});
      for (std::size_t i = 0; i < exact.size(); ++i) {
        CAPTURE(i);
        CHECK(rms_error(chosen[i], exact[i]) <= 1.7 * rms_error(direct[i], exact[i]));
      }
    }
}

TEST_CASE("Winograd: NaN spreads over its tile and no further") {
  for (const ConvAlgorithm algorithm : {ConvAlgorithm::winograd_2x2, ConvAlgorithm::winograd_4x4}) {
    Algorithm use(algorithm);
    const Tensor x = full({1, 20, 12, 12}, 1.0, {.memory_format = kChannelsLast}),
                 w = full({20, 20, 3, 3}, 1.0), out = empty_like(x);
    x.select(0, 0).select(0, 3).select(0, 1).select(0, 1).fill_(NAN);
    kernels::conv2d(Stream(), out, x, w, {}, {.padding = {1, 1}, .activation = Activation::relu});
    const auto v = out.to_vector<double>();
    for (int y = 0; y < 12; ++y)
      for (int c = 0; c < 12; ++c) {
        const double value = v[static_cast<std::size_t>(y * 12 + c)];
        if (y <= 2 && c <= 2) CHECK(std::isnan(value));
        if (y > 8 || c > 8) CHECK(std::isfinite(value));
      }
  }
}

TEST_CASE("Winograd: the same bits for every number of threads and every batch") {
  const Case five{.n = 9, .c = 40, .h = 11, .w = 10, .o = 70, .top = 0, .left = 0, .taps = 5};
  for (const Case& k : {Case{9, 40, 11, 10, 70}, Case{3, 150, 5, 5, 160}, five})
    for (const ConvAlgorithm algorithm :
         {ConvAlgorithm::winograd_2x2, ConvAlgorithm::winograd_4x4}) {
      Algorithm use(algorithm);
      std::vector<Tensor> first;
      for (const int threads : {1, 2, 4}) {
        Threads use_threads(threads);
        const auto now = run(k, kFloat32, channels_last);
        if (first.empty()) first = now;
        for (std::size_t i = 0; i < now.size(); ++i) check_equal(now[i], first[i]);
      }
      Case one = k;
      one.n = 1;
      const auto alone = run(one, kFloat32, channels_last);
      for (std::size_t i = 0; i < alone.size(); ++i)
        check_equal(alone[i], first[i].narrow(0, 0, 1));
    }
}

TEST_CASE("Winograd: is used where it pays, and only for supported shapes") {
  const auto differs = [](const Case& k, ConvParams p) {
    const Tensor x = values(k.input(), 1).to(kFloat32).to(kChannelsLast),
                 w = values(k.weight(), 2).to(kFloat32).to(kChannelsLast);
    const auto out = [&](ConvAlgorithm algorithm) {
      Algorithm use(algorithm);
      const std::int64_t h = (k.h + 2 * k.top - 2 * p.dilation[0] - 1) / p.stride[0] + 1,
                         w_out = (k.w + 2 * k.left - 2 * p.dilation[1] - 1) / p.stride[1] + 1;
      const Tensor to = empty({k.n, k.o, h, w_out}, {.memory_format = kChannelsLast});
      kernels::conv2d(Stream(), to, x, w, {}, p);
      return to.to_vector<float>();
    };
    const auto direct = out(ConvAlgorithm::direct);
    return std::pair{out(ConvAlgorithm::automatic) != direct,
                     out(ConvAlgorithm::winograd_4x4) != direct};
  };
  const std::pair taken{true, true}, not_for_it{false, false}, left{false, true};
  const Case wide{4, 64, 14, 14, 64};
  CHECK(differs(wide, wide.params()) == taken);
  CHECK(differs(wide, {.stride = {2, 2}, .padding = {1, 1}}) == not_for_it);
  CHECK(differs(wide, {.stride = {1, 2}, .padding = {1, 1}}) == not_for_it);
  CHECK(differs(wide, {.padding = {1, 1}, .dilation = {2, 1}}) == not_for_it);
  const Case narrow{4, 1, 28, 28, 6};
  CHECK(differs(narrow, narrow.params()) == left);
}
