#include "ferrite/ops/pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/core/stream.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

// kernel, stride, padding, dilation: the lists of tests/golden/record_pool.py.
const std::vector<std::array<Pair, 4>> kWindows = {{{{2, 2}, {2, 2}, {0, 0}, {1, 1}}},
                                                   {{{3, 3}, {2, 2}, {1, 1}, {1, 1}}},
                                                   {{{3, 2}, {1, 3}, {1, 0}, {2, 1}}},
                                                   {{{2, 4}, {3, 2}, {1, 2}, {1, 1}}},
                                                   {{{5, 3}, {4, 4}, {2, 1}, {1, 2}}}};

MaxPool2dOptions max_options(const std::array<Pair, 4>& w, bool ceil_mode = false) {
  return {.kernel_size = w[0],
          .stride = w[1],
          .padding = w[2],
          .dilation = w[3],
          .ceil_mode = ceil_mode};
}
AvgPool2dOptions avg_options(const std::array<Pair, 4>& w, bool ceil_mode = false,
                             bool include = true) {
  return {.kernel_size = w[0],
          .stride = w[1],
          .padding = w[2],
          .ceil_mode = ceil_mode,
          .count_include_pad = include};
}

using Function = std::function<Tensor(const Tensor&)>;

/// Values and gradient in both layouts and three floating types against recorded ones. The recorded
/// numbers are multiples of 1/16 below 2^4, so that maxima are exact in every type.
void check_golden(const test::Golden& golden, const Tensor& x, const std::string& name,
                  const Function& f) {
  CAPTURE(name);
  for (MemoryFormat format : {kContiguous, kChannelsLast})
    for (DType dtype : {kFloat32, kFloat64, kFloat16}) {
      CAPTURE(dtype);
      const double rtol = test::rounding_of(dtype) > 1e-5 ? 1e-3 : 1e-5;
      const Tensor in = x.to(dtype).contiguous(format).detach().set_requires_grad();
      const Tensor out = f(in);
      CHECK(out.dtype() == dtype);
      CHECK(out.is_contiguous(format));
      check_close(out, golden.get(name, "out"), rtol);
      out.backward(golden.get(name, "grad").to(dtype));
      CHECK(in.grad().is_contiguous(format));
      check_close(in.grad(), golden.get(name, "dx"), rtol, dtype == kFloat16 ? 2e-3 : 1e-6);
    }
}

void check_indices(const test::Golden& golden, const Tensor& x, const std::string& name,
                   const std::function<std::pair<Tensor, Tensor>(const Tensor&)>& f) {
  CAPTURE(name);
  for (MemoryFormat format : {kContiguous, kChannelsLast}) {
    const auto [out, indices] = f(x.contiguous(format));
    check_equal(out, golden.get(name, "out"));
    check_equal(indices, golden.get(name, "indices"));
    CHECK(indices.is_contiguous(format));
  }
}

/// What a window holds, by a loop that shares nothing with the kernels: values and plane indices.
struct Cells {
  std::vector<double> values;
  std::vector<std::int64_t> indices;
};
Cells window_cells(const Tensor& x, std::int64_t n, std::int64_t c, std::int64_t oh,
                   std::int64_t ow, const std::array<Pair, 4>& w) {
  Cells cells;
  for (std::int64_t i = 0; i < w[0].h; ++i)
    for (std::int64_t j = 0; j < w[0].w; ++j) {
      const std::int64_t h = oh * w[1].h - w[2].h + i * w[3].h;
      const std::int64_t k = ow * w[1].w - w[2].w + j * w[3].w;
      if (h < 0 || k < 0 || h >= x.size(2) || k >= x.size(3)) continue;
      cells.values.push_back(x[n][c][h][k].item<double>());
      cells.indices.push_back(h * x.size(3) + k);
    }
  return cells;
}

/// A shuffled sequence: no ties, differences of 1.
Tensor distinct(const Shape& shape, DType dtype = kFloat64) {
  Generator generator(7);
  return randperm(shape.numel(), {.dtype = dtype}, &generator).view(shape);
}

double largest(const Tensor& t) {
  const std::vector<double> values = t.to_vector<double>();
  return *std::max_element(values.begin(), values.end());
}

}  // namespace

TEST_CASE("max_pool2d agrees with PyTorch") {
  const test::Golden golden("pool");
  const Tensor x = golden.get("input", "x");
  for (std::size_t i = 0; i < kWindows.size(); ++i)
    for (bool ceil_mode : {false, true}) {
      const std::string name = fmt::format("max{}_{:d}", i, ceil_mode);
      const MaxPool2dOptions options = max_options(kWindows[i], ceil_mode);
      check_golden(golden, x, name, [&](const Tensor& t) { return max_pool2d(t, options); });
      check_indices(golden, x, name,
                    [&](const Tensor& t) { return max_pool2d_with_indices(t, options); });
    }
}

TEST_CASE("avg_pool2d agrees with PyTorch") {
  const test::Golden golden("pool");
  const Tensor x = golden.get("input", "x");
  for (std::size_t i = 0; i < kWindows.size(); ++i)
    for (bool ceil_mode : {false, true})
      for (bool include : {false, true})
        check_golden(golden, x, fmt::format("avg{}_{:d}{:d}", i, ceil_mode, include),
                     [&](const Tensor& t) {
                       return avg_pool2d(t, avg_options(kWindows[i], ceil_mode, include));
                     });
  check_golden(golden, x, "avg_override",
               [](const Tensor& t) { return avg_pool2d(t, 3, 2, 1, true, true, 5); });
}

TEST_CASE("adaptive pooling agrees with PyTorch") {
  const test::Golden golden("pool");
  const Tensor x = golden.get("input", "x");
  for (const Pair size : {Pair(1), Pair(3, 4), Pair(7, 3), Pair(9, 11)}) {
    const std::string suffix = fmt::format("{}x{}", size.h, size.w);
    check_golden(golden, x, "adaptive_avg_" + suffix,
                 [&](const Tensor& t) { return adaptive_avg_pool2d(t, size); });
    check_golden(golden, x, "adaptive_max_" + suffix,
                 [&](const Tensor& t) { return adaptive_max_pool2d(t, size); });
    check_indices(golden, x, "adaptive_max_" + suffix,
                  [&](const Tensor& t) { return adaptive_max_pool2d_with_indices(t, size); });
  }
}

TEST_CASE("max_pool2d: ties give the first, NaN wins, infinities count") {
  const test::Golden golden("pool");
  const Tensor x = golden.get("special", "x");
  check_indices(golden, x, "special_max",
                [](const Tensor& t) { return max_pool2d_with_indices(t, {.kernel_size = 2}); });
  check_indices(golden, x, "special_max3", [](const Tensor& t) {
    return max_pool2d_with_indices(t, {.kernel_size = 3, .stride = 1, .padding = 1});
  });
  // The generic loops, of another type.
  const auto [out, indices] = max_pool2d_with_indices(x.to(kFloat64), {.kernel_size = 2});
  check_close(out, golden.get("special_max", "out"), 0);
  check_equal(indices, golden.get("special_max", "indices"));
}

TEST_CASE("pooling against a plain loop, over sizes around the vector widths") {
  for (const std::array<Pair, 4>& w : kWindows)
    for (const std::int64_t channels : {1, 3, 5, 17})
      for (const Pair size : {Pair(5, 4), Pair(6, 9), Pair(7, 37)}) {
        if (size.h == 5 && w[0].h == 5) continue;
        const Tensor x = distinct({2, channels, size.h, size.w});
        const MaxPool2dOptions options = max_options(w, true);
        const auto [out, indices] = max_pool2d_with_indices(x, options);
        const Tensor mean = avg_pool2d(x, avg_options(w, true, false));
        std::vector<double> maxima, means;
        std::vector<double> places;
        for (std::int64_t n = 0; n < 2; ++n)
          for (std::int64_t c = 0; c < channels; ++c) {
            for (std::int64_t oh = 0; oh < out.size(2); ++oh)
              for (std::int64_t ow = 0; ow < out.size(3); ++ow) {
                const Cells cells = window_cells(x, n, c, oh, ow, w);
                const auto best = std::max_element(cells.values.begin(), cells.values.end());
                maxima.push_back(*best);
                places.push_back(static_cast<double>(
                    cells.indices[static_cast<std::size_t>(best - cells.values.begin())]));
              }
            for (std::int64_t oh = 0; oh < mean.size(2); ++oh)
              for (std::int64_t ow = 0; ow < mean.size(3); ++ow) {
                std::array<Pair, 4> undilated = w;
                undilated[3] = 1;
                const Cells cells = window_cells(x, n, c, oh, ow, undilated);
                double sum = 0;
                for (double v : cells.values) sum += v;
                means.push_back(sum / static_cast<double>(cells.values.size()));
              }
          }
        for (DType dtype : {kFloat32, kFloat64})
          for (MemoryFormat format : {kContiguous, kChannelsLast}) {
            const Tensor t = x.to(dtype).contiguous(format);
            check_close(max_pool2d(t, options), maxima, 0);
            check_close(max_pool2d_with_indices(t, options).second, places, 0);
            check_close(avg_pool2d(t, avg_options(w, true, false)), means, 1e-6);
          }
      }
}

TEST_CASE("pooling: every layout gives the same gradient") {
  for (const std::array<Pair, 4>& w : kWindows)
    for (const std::int64_t channels : {3, 20})
      for (const Pair size : {Pair(7, 9), Pair(8, 34)})
        for (const bool max : {false, true}) {
          const auto pool = [&](const Tensor& t) {
            return max ? max_pool2d(t, max_options(w)) : avg_pool2d(t, avg_options(w));
          };
          const auto gradient = [&](DType dtype, MemoryFormat format) {
            const Tensor x =
                distinct({2, channels, size.h, size.w}).to(dtype).contiguous(format).detach();
            x.set_requires_grad();
            const Tensor y = pool(x);
            y.backward(distinct(y.shape()).to(dtype));
            return x.grad();
          };
          const Tensor expected = gradient(kFloat64, kContiguous);
          check_close(gradient(kFloat64, kChannelsLast), expected, 1e-12);
          check_close(gradient(kFloat32, kContiguous), expected, 1e-5);
          check_close(gradient(kFloat32, kChannelsLast), expected, 1e-5);
        }
}

TEST_CASE("pooling: gradients of both orders by gradcheck") {
  const autograd::GradcheckOptions twice{.second_order = true};
  for (MemoryFormat format : {kContiguous, kChannelsLast}) {
    // Differences of 1, so that the finite difference changes no maximum.
    const Tensor x = distinct({2, 2, 5, 6}).contiguous(format).detach().set_requires_grad();
    const auto check = [&](const Function& f) {
      CHECK(
          autograd::gradcheck([&](const std::vector<Tensor>& in) { return f(in[0]); }, {x}, twice));
    };
    check([](const Tensor& t) { return max_pool2d(t, 3, 2, 1); });
    check([](const Tensor& t) { return max_pool2d(t, 2, 1, 0, {1, 2}, true); });
    check([](const Tensor& t) { return avg_pool2d(t, 3, 2, 1, true, false); });
    check([](const Tensor& t) { return avg_pool2d(t, {2, 3}); });
    check([](const Tensor& t) { return adaptive_avg_pool2d(t, {2, 4}); });
    check([](const Tensor& t) { return adaptive_max_pool2d(t, {3, 1}); });
  }
}

TEST_CASE("max_pool2d: windows of more than 256 cells") {
  for (MemoryFormat format : {kContiguous, kChannelsLast}) {
    const Tensor x = distinct({1, 2, 17, 20}).contiguous(format).detach().set_requires_grad();
    const Tensor y = max_pool2d(x, {17, 19}, 1);
    y.backward(ones_like(y));
    double total = 0;
    for (double g : x.grad().to_vector<double>()) total += g;
    CHECK(total == 4);
    CHECK(adaptive_max_pool2d(x, 1).to_vector<double>() ==
          std::vector<double>{largest(x[0][0]), largest(x[0][1])});
  }
}

TEST_CASE("max_pool2d: windows far larger than the plane") {
  for (const DType dtype : {kFloat32, kBFloat16})
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      const Tensor x =
          distinct({1, 2, 5, 5}).to(dtype).contiguous(format).detach().set_requires_grad();
      const Tensor y = max_pool2d(x, 40000, 1, 20000);
      CHECK(y.shape() == Shape{1, 2, 6, 6});
      y.backward(ones_like(y));
      // Each of the 36 windows of a plane holds all of it.
      double all = 0, most = 0;
      for (const double g : x.grad().to_vector<double>()) all += g, most = std::max(most, g);
      CHECK(all == 72);
      CHECK(most == 36);
      CHECK(y[0][0][0][0].item<double>() == largest(x[0][0]));
    }
}

TEST_CASE("pooling of [C, H, W], of views and of empty batches") {
  const Tensor x = distinct({3, 6, 8});
  const Tensor batch = x.unsqueeze(0);
  check_equal(max_pool2d(x, 2), max_pool2d(batch, 2).squeeze(0));
  check_equal(avg_pool2d(x, 3, 2, 1), avg_pool2d(batch, 3, 2, 1).squeeze(0));
  check_equal(adaptive_avg_pool2d(x, 1), adaptive_avg_pool2d(batch, 1).squeeze(0));

  // Views that are dense in neither layout, and a gradient of such strides.
  const Tensor wide = distinct({2, 6, 8, 3}, kFloat32).set_requires_grad();
  const Tensor view = wide.permute({0, 3, 2, 1}).slice(2, 1, 7);
  const Tensor y = max_pool2d(view, 2);
  check_equal(y, max_pool2d(view.detach().contiguous(), 2));
  y.backward(ones({1, 1, 1, 1}).expand(y.shape()));
  double total = 0;
  for (double g : wide.grad().to_vector<double>()) total += g;
  CHECK(total == static_cast<double>(y.numel()));

  const Tensor none = zeros({0, 3, 8, 8}).set_requires_grad();
  CHECK(max_pool2d(none, 2).shape() == Shape{0, 3, 4, 4});
  CHECK(max_pool2d_with_indices(none, {.kernel_size = 2}).second.shape() == Shape{0, 3, 4, 4});
  CHECK(adaptive_avg_pool2d(none, 1).shape() == Shape{0, 3, 1, 1});
  avg_pool2d(none, 3).sum().backward();
  CHECK(none.grad().shape() == none.shape());
}

TEST_CASE("pooling of one cell") {
  const Tensor x = full({1, 1, 1, 1}, 3.5).set_requires_grad();
  for (const Tensor& y : {max_pool2d(x, 1), avg_pool2d(x, 1), adaptive_avg_pool2d(x, 1),
                          max_pool2d(x, 2, 1, 1), avg_pool2d(x, 2, 2, 1, false, false)})
    CHECK(largest(y) == 3.5);
  CHECK(adaptive_max_pool2d(x, {2, 3}).to_vector<float>() == std::vector<float>(6, 3.5f));
}

TEST_CASE("max_pool2d of padding alone is -infinity, at no position and without a gradient") {
  struct Case {
    Shape in, out;
    Pair kernel, stride, padding, dilation;
    bool ceil_mode;
  };
  for (const Case& c : {Case{{2, 3, 1, 1}, {2, 3, 1, 1}, 2, 2, 1, 2, false},
                        Case{{2, 3, 2, 5}, {2, 3, 1, 5}, {2, 3}, 1, 1, {3, 1}, false},
                        Case{{1, 2, 4, 1}, {1, 2, 2, 1}, {2, 2}, {2, 3}, {0, 1}, {1, 4}, true}})
    for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16})
      for (MemoryFormat format : {kContiguous, kChannelsLast}) {
        const MaxPool2dOptions options{.kernel_size = c.kernel,
                                       .stride = c.stride,
                                       .padding = c.padding,
                                       .dilation = c.dilation,
                                       .ceil_mode = c.ceil_mode};
        const Tensor x = rand(c.in).to(dtype).contiguous(format).detach().set_requires_grad();
        const auto [y, at] = max_pool2d_with_indices(x, options);
        const auto n = static_cast<std::size_t>(c.out.numel());
        CHECK(y.dtype() == dtype);
        CHECK(y.shape() == c.out);
        CHECK(y.to(kFloat32).to_vector<float>() == std::vector<float>(n, -INFINITY));
        CHECK(at.shape() == c.out);
        CHECK(at.to_vector<std::int64_t>() == std::vector<std::int64_t>(n, -1));
        y.backward(ones_like(y));
        check_equal(x.grad(), zeros_like(x));
      }
}

TEST_CASE("pooling of one channel in either format") {
  const Tensor x = distinct({3, 1, 9, 11});
  for (const Function& f : {Function([](const Tensor& t) { return max_pool2d(t, 3, 2, 1); }),
                            Function([](const Tensor& t) { return avg_pool2d(t, 3, 2, 1); })}) {
    const Tensor plain = x.detach().set_requires_grad();
    const Tensor named = x.to(kChannelsLast).detach().set_requires_grad();
    const Tensor out = f(named);
    CHECK(out.suggest_memory_format() == kChannelsLast);
    check_equal(out, f(plain));
    f(plain).sum().backward();
    out.sum().backward();
    check_equal(named.grad(), plain.grad());
  }
}

TEST_CASE("pooling in the 16-bit types rounds once") {
  const Tensor x = randn({2, 5, 9, 9}, {.dtype = kFloat64});
  for (DType dtype : {kFloat16, kBFloat16})
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      const Tensor h = x.to(dtype).contiguous(format);
      check_equal(max_pool2d(h, 3, 2, 1), max_pool2d(h.to(kFloat64), 3, 2, 1).to(dtype));
      check_close(avg_pool2d(h, 3, 2, 1), avg_pool2d(h.to(kFloat64), 3, 2, 1),
                  test::rounding_of(dtype), 1e-6);
      check_close(adaptive_avg_pool2d(h, 1), adaptive_avg_pool2d(h.to(kFloat64), 1),
                  test::rounding_of(dtype), 1e-6);
    }
}

TEST_CASE("avg_pool3d with a divisor: no overflow between its two poolings") {
  const Tensor x = full({1, 1, 2, 2, 2}, 20000, {.dtype = kFloat16}).set_requires_grad();
  const Tensor y = avg_pool3d(x, 2, {.divisor_override = 8});
  CHECK(y.dtype() == kFloat16);
  CHECK(y.item<double>() == 20000);
  y.sum().backward();
  CHECK(x.grad().dtype() == kFloat16);
  check_close(x.grad(), std::vector<double>(8, 0.125), 0, 0);
  const Tensor v = randn({2, 3, 5, 4, 6}, {.dtype = kFloat64});
  for (const DType dtype : {kFloat16, kBFloat16})
    check_close(avg_pool3d(v.to(dtype), 3, {.divisor_override = 5}),
                avg_pool3d(v.to(dtype).to(kFloat64), 3, {.divisor_override = 5}),
                test::rounding_of(dtype), 1e-6);
}

TEST_CASE("pooling 2x2 cells in the 16-bit types rounds the results of float32") {
  const auto pooled = [](const Tensor& values, bool max) {
    const Tensor x = values.detach().requires_grad_();
    const Tensor y = max ? max_pool2d(x, {.kernel_size = 2}) : avg_pool2d(x, {.kernel_size = 2});
    y.backward(arange(y.numel(), kFloat32)
                   .reshape(y.shape())
                   .to(y.dtype())
                   .contiguous(y.suggest_memory_format()));
    return std::pair{y.detach(), x.grad()};
  };
  for (const DType dtype : {kFloat16, kBFloat16})
    for (const MemoryFormat format : {kContiguous, kChannelsLast})
      for (const std::int64_t channels : {1, 3, 6, 16, 37})
        for (const bool max : {true, false}) {
          // Rows and columns of an odd size leave the last one out.
          Tensor values = randn({2, channels, 5, 2 * channels + 1}).to(dtype).contiguous(format);
          if (max) values.select(0, 1).select(0, 0).select(0, 2).select(0, 1).fill_(NAN);
          CAPTURE(name(dtype));
          CAPTURE(channels);
          const auto [y, grad] = pooled(values, max);
          const auto [y32, grad32] = pooled(values.to(kFloat32), max);
          CHECK(y.dtype() == dtype);
          check_equal(y.to(kFloat32), y32.to(dtype).to(kFloat32));
          check_equal(grad.to(kFloat32), grad32.to(dtype).to(kFloat32));
        }
}

TEST_CASE("the mean of a large plane stays exact to float32") {
  Tensor x = rand({1, 2, 301, 407}).to(kFloat32);
  const Tensor expected = adaptive_avg_pool2d(x.to(kFloat64), 1);
  check_close(adaptive_avg_pool2d(x, 1), expected, 2e-6);
  check_close(adaptive_avg_pool2d(x.contiguous(kChannelsLast), 1), expected, 2e-6);
}

TEST_CASE("pooling does not depend on the number of threads") {
  const int before = num_threads();
  const Tensor x = randn({40, 6, 28, 28}).set_requires_grad();
  std::vector<Tensor> results;
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    for (const auto& f : std::vector<Function>{
             [](const Tensor& t) { return max_pool2d(t, 2); },
             [](const Tensor& t) { return max_pool2d(t, 3, 2, 1); },
             [](const Tensor& t) { return avg_pool2d(t.contiguous(kChannelsLast), 3, 1, 1); }}) {
      x.set_grad({});
      const Tensor y = f(x);
      y.backward(y.detach());
      results.push_back(y.detach());
      results.push_back(x.grad());
    }
  }
  set_num_threads(before);
  for (std::size_t i = 0; i < 6; ++i) check_equal(results[i], results[i + 6]);
}

TEST_CASE("pooling on a queued device") {
  const Tensor x = randn({2, 3, 8, 8});
  const Tensor y = max_pool2d(x.to(Device("cpu:0")), 2);
  CHECK(y.device() == Device("cpu:0"));
  check_equal(y.cpu(), max_pool2d(x, 2));
}

TEST_CASE("pooling refuses bad arguments") {
  const Tensor x = randn({1, 2, 6, 6});
  CHECK_THROWS_AS(max_pool2d(Tensor(), 2), ValueError);
  CHECK_THROWS_AS(max_pool2d(randn({6, 6}), 2), ShapeError);
  CHECK_THROWS_AS(max_pool2d(randn({1, 1, 1, 6, 6}), 2), ShapeError);
  CHECK_THROWS_AS(max_pool2d(zeros({1, 2, 6, 6}, {.dtype = kInt64}), 2), DTypeError);
  CHECK_THROWS_AS(max_pool2d(zeros({1, 0, 6, 6}), 2), ShapeError);
  CHECK_THROWS_AS(max_pool2d(zeros({1, 2, 0, 6}), 2), ShapeError);
  CHECK_THROWS_AS(max_pool2d(zeros({0, 6, 6}), 2), ShapeError);
  CHECK_THROWS_AS(max_pool2d(x, 0), ValueError);
  CHECK_THROWS_AS(max_pool2d(x, 2, 0), ValueError);
  CHECK_THROWS_AS(max_pool2d(x, 2, 2, -1), ValueError);
  CHECK_THROWS_AS(max_pool2d(x, 2, 2, 2), ValueError);
  CHECK_THROWS_AS(max_pool2d(x, 2, 2, 0, 0), ValueError);
  CHECK_THROWS_AS(max_pool2d(x, 7), ShapeError);
  CHECK_THROWS_AS(max_pool2d(x, 3, 1, 0, 3), ShapeError);
  CHECK_THROWS_AS(max_pool2d(x, std::int64_t{1} << 40), ValueError);
  CHECK_THROWS_AS(avg_pool2d(x, 2, 2, 0, false, true, 0), ValueError);
  CHECK_THROWS_AS(adaptive_avg_pool2d(x, 0), ValueError);
  CHECK_THROWS_AS(adaptive_max_pool2d(x, {1, -1}), ValueError);
  CHECK_THROWS_WITH(max_pool2d(x, 3, 3, 2),
                    "[max_pool2d] padding 2 is outside 0 to 1, half the kernel_size 3");
  CHECK_THROWS_WITH(avg_pool2d(x, 7),
                    "[avg_pool2d] windows of 7 x 7 do not fit into float32[1, 2, 6, 6] on cpu");
}

TEST_CASE("max_pool2d's gradient notices nothing but its own") {
  // The gradient needs neither input nor result: both may change in place meanwhile.
  const Tensor x = randn({1, 1, 4, 4}).set_requires_grad();
  const Tensor h = x * 1.0;
  const Tensor y = max_pool2d(h, 2);
  no_grad([&] { h.zero_(); });
  y.backward(ones_like(y));
  CHECK(x.grad().sum().item<float>() == 4);
}
