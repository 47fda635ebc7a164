#include "ferrite/ops/norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/norm.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

struct Inputs {
  Tensor x, w, b, mean, var;
};

Inputs load_inputs(const test::Golden& golden, const std::string& name, DType dtype,
                   MemoryFormat format) {
  const auto get = [&](const char* what) {
    return golden.has(name, what) ? golden.get(name, what).to(dtype).clone() : Tensor();
  };
  Inputs in{get("x"), get("w"), get("b"), get("mean"), get("var")};
  if (in.x.dim() == 4) in.x = in.x.contiguous(format);
  for (const Tensor* t : {&in.x, &in.w, &in.b})
    if (t->defined()) t->set_requires_grad();
  return in;
}

void check_gradients(const test::Golden& golden, const std::string& name, const Inputs& in,
                     const Tensor& out) {
  check_close(out, golden.get(name, "out"), 1e-5, 2e-6);
  out.backward(golden.get(name, "grad").to(out.dtype()));
  check_close(in.x.grad(), golden.get(name, "dx"), 1e-5, 5e-6);
  if (in.w.defined()) check_close(in.w.grad(), golden.get(name, "dw"), 1e-5, 5e-6);
  if (in.b.defined()) check_close(in.b.grad(), golden.get(name, "db"), 1e-5, 5e-6);
}

/// Batch norm by plain loops in float64.
struct Reference {
  std::vector<double> mean, var, out;  ///< biased variance

  Reference(const Tensor& x, const Tensor& w, const Tensor& b, double eps) {
    const std::vector<double> v = x.to_vector<double>();
    const std::size_t channels = static_cast<std::size_t>(x.size(1));
    const std::size_t inner =
        v.empty() ? 1 : v.size() / channels / static_cast<std::size_t>(x.size(0));
    const double n = static_cast<double>(v.size() / channels);
    mean.resize(channels), var.resize(channels), out.resize(v.size());
    const auto channel = [&](std::size_t i) { return i / inner % channels; };
    for (std::size_t i = 0; i < v.size(); ++i) mean[channel(i)] += v[i] / n;
    for (std::size_t i = 0; i < v.size(); ++i)
      var[channel(i)] += (v[i] - mean[channel(i)]) * (v[i] - mean[channel(i)]) / n;
    const std::vector<double> ws = w.to_vector<double>(), bs = b.to_vector<double>();
    for (std::size_t i = 0; i < v.size(); ++i) {
      const std::size_t c = channel(i);
      out[i] = (v[i] - mean[c]) / std::sqrt(var[c] + eps) * ws[c] + bs[c];
    }
  }
};

Tensor noise(const Shape& shape, DType dtype = kFloat64) {
  Generator generator(3);
  return randn(shape, {.dtype = dtype}, &generator);
}

bool check_gradient(const autograd::GradcheckFunction& f, const std::vector<Tensor>& inputs) {
  for (const Tensor& t : inputs) t.set_requires_grad();
  return autograd::gradcheck(f, inputs);
}

}  // namespace

TEST_CASE("batch_norm agrees with PyTorch") {
  const test::Golden golden("norm");
  for (const char* shape : {"2d", "3d", "4d"})
    for (const char* mode : {"train", "eval", "options"})
      for (DType dtype : {kFloat32, kFloat64})
        for (MemoryFormat format : {kContiguous, kChannelsLast}) {
          const std::string name = fmt::format("batch_{}_{}", shape, mode);
          CAPTURE(name);
          const Inputs in = load_inputs(golden, name, dtype, format);
          const bool options = std::string(mode) == "options";
          const Tensor out =
              batch_norm(in.x, in.mean, in.var, in.w, in.b, std::string(mode) != "eval",
                         options ? 0.7 : 0.1, options ? 0.1 : 1e-5);
          CHECK(out.suggest_memory_format() == in.x.suggest_memory_format());
          check_gradients(golden, name, in, out);
          check_close(in.mean, golden.get(name, "mean_after"), 1e-5, 1e-6);
          check_close(in.var, golden.get(name, "var_after"));
        }
}

TEST_CASE("layer_norm and group_norm agree with PyTorch") {
  const test::Golden golden("norm");
  for (DType dtype : {kFloat32, kFloat64})
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      const auto check = [&](const char* name, auto f) {
        CAPTURE(name);
        const Inputs in = load_inputs(golden, name, dtype, format);
        check_gradients(golden, name, in, f(in));
      };
      check("layer1", [](const Inputs& in) { return layer_norm(in.x, {5}, in.w, in.b); });
      check("layer3", [](const Inputs& in) {
        return layer_norm(in.x, {3, 4, 5}, in.w, in.b, 0.01);
      });
      check("layer_plain", [](const Inputs& in) { return layer_norm(in.x, {4, 5}); });
      check("group2", [](const Inputs& in) { return group_norm(in.x, 2, in.w, in.b); });
      check("group6", [](const Inputs& in) { return group_norm(in.x, 6, {}, {}, 0.01); });
    }
}

TEST_CASE("batch_norm against a plain loop, over sizes around vector widths and pieces") {
  for (const Shape& shape : std::vector<Shape>{{2, 1},
                                               {7, 3},
                                               {1200, 21},
                                               {3, 5, 1},
                                               {2, 17, 33},
                                               {2, 3, 5, 7},
                                               {3, 6, 130, 67},
                                               {33, 20, 9, 9}}) {
    CAPTURE(shape);
    const Tensor x = noise(shape) * 3.0 + 2.0;
    const Tensor w = noise({shape[1]}), b = noise({shape[1]}) * 2.0;
    const Reference expected(x, w, b, 1e-5);
    for (DType dtype : {kFloat64, kFloat32})
      for (MemoryFormat format : {kContiguous, kChannelsLast}) {
        if (shape.size() != 4 && format == kChannelsLast) continue;
        const double rtol = dtype == kFloat64 ? 1e-10 : 2e-5;
        const Tensor mean = zeros({shape[1]}, {.dtype = dtype});
        const Tensor var = zeros({shape[1]}, {.dtype = dtype});
        const Tensor in = x.to(dtype).contiguous(format);
        const Tensor out = batch_norm(in, mean, var, w.to(dtype), b.to(dtype), true, 1.0);
        check_close(out, expected.out, rtol, rtol);
        check_close(mean, expected.mean, rtol, rtol);
        const double n = static_cast<double>(x.numel() / shape[1]);
        std::vector<double> unbiased;
        for (double v : expected.var) unbiased.push_back(v * n / (n - 1));
        check_close(var, unbiased, rtol);
      }
  }
}

TEST_CASE("batch_norm's variance survives a mean far from zero") {
  // mean / std is 1e4: squares of float32 values would keep no digit of the variance.
  for (const Shape& shape : std::vector<Shape>{{5000, 6}, {8, 6, 40, 40}})
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      if (shape.size() != 4 && format == kChannelsLast) continue;
      const Tensor x = (noise(shape) * 0.1 + 1000.0).to(kFloat32).contiguous(format);
      const Tensor w = ones({6}), b = zeros({6});
      const Reference expected(x.to(kFloat64), w, b, 0);
      const Tensor mean = zeros({6}), var = zeros({6});
      const Tensor out = batch_norm(x, mean, var, w, b, true, 1.0, 0);
      check_close(mean, expected.mean, 1e-6);
      const double n = static_cast<double>(x.numel() / 6);
      std::vector<double> unbiased;
      for (double v : expected.var) unbiased.push_back(v * n / (n - 1));
      check_close(var, unbiased, 1e-5);
      // The mean itself is rounded to float32, 6e-5 here, 6e-4 of a standard deviation.
      check_close(out, expected.out, 1e-5, 1e-3);
    }
  const Tensor row = (noise({4, 3000}) * 0.1 + 1000.0).to(kFloat32);
  const Tensor exact = layer_norm(row.to(kFloat64), {3000});
  check_close(layer_norm(row, {3000}), exact, 1e-5, 1e-3);
}

TEST_CASE("batch_norm: gradients by gradcheck") {
  const Tensor mean = noise({3}), var = rand({3}, {.dtype = kFloat64}) + 0.5;
  for (const Shape& shape : std::vector<Shape>{{5, 3}, {2, 3, 4}, {2, 3, 2, 3}})
    for (MemoryFormat format : {kContiguous, kChannelsLast})
      for (bool training : {true, false}) {
        if (shape.size() != 4 && format == kChannelsLast) continue;
        CAPTURE(shape);
        CAPTURE(training);
        const Tensor x = noise(shape).contiguous(format), w = noise({3}), b = noise({3});
        CHECK(check_gradient(
            [&](const std::vector<Tensor>& in) {
              return batch_norm(in[0], mean.clone(), var.clone(), in[1], in[2], training);
            },
            {x.detach(), w, b}));
        CHECK(check_gradient(
            [&](const std::vector<Tensor>& in) {
              return batch_norm(in[0], training ? Tensor() : mean, training ? Tensor() : var, {},
                                {}, training);
            },
            {x.detach()}));
      }
}

TEST_CASE("layer_norm and group_norm: gradients by gradcheck") {
  for (std::int64_t width : {1, 4, 19}) {
    CHECK(check_gradient(
        [&](const std::vector<Tensor>& in) { return layer_norm(in[0], {width}, in[1], in[2]); },
        {noise({3, width}), noise({width}), noise({width})}));
    CHECK(check_gradient(
        [&](const std::vector<Tensor>& in) { return group_norm(in[0], 2, in[1], in[2]); },
        {noise({2, 4, width}), noise({4}), noise({4})}));
  }
}

TEST_CASE("group_norm in both formats, beside layer_norm and by image") {
  for (const Shape& shape : std::vector<Shape>{
           {3, 12, 7, 9}, {1, 8, 40, 41}, {5, 96, 1, 1}, {4, 6, 1, 33}, {2, 40, 16, 16}})
    for (MemoryFormat format : {kContiguous, kChannelsLast})
      for (std::int64_t groups : {std::int64_t{1}, std::int64_t{2}, shape[1]}) {
        if (groups == shape[1] && shape[2] * shape[3] == 1) continue;
        CAPTURE(shape);
        CAPTURE(groups);
        const std::int64_t channels = shape[1], images = shape[0];
        const auto inputs = [&](DType dtype) {
          return std::vector<Tensor>{(noise(shape) * 3.0 + 2.0).to(dtype).contiguous(format),
                                     noise({channels}).to(dtype), noise({channels}).to(dtype)};
        };
        manual_seed(1);
        const std::vector<Tensor> in = inputs(kFloat32);
        std::vector<Tensor> wide;
        for (const Tensor& t : in) wide.push_back(t.to(kFloat64).contiguous());
        for (const Tensor& t : in) t.set_requires_grad();
        for (const Tensor& t : wide) t.set_requires_grad();
        const Tensor out = group_norm(in[0], groups, in[1], in[2]);
        const Tensor rows = wide[0].reshape({images * groups, -1});
        const Shape of_channels{1, channels, 1, 1};
        const Tensor expected =
            layer_norm(rows, {rows.size(1)}).reshape(shape) * wide[1].reshape(of_channels) +
            wide[2].reshape(of_channels);
        check_close(out, expected, 1e-5, 2e-5);
        CHECK(out.is_contiguous(in[0].suggest_memory_format()));
        const Tensor grad = noise(shape);
        out.backward(grad.to(kFloat32));
        expected.backward(grad);
        for (std::size_t i = 0; i < in.size(); ++i)
          check_close(in[i].grad(), wide[i].grad(), 1e-4, 1e-4);
        // An image's result is that of the image alone, bit for bit.
        const NoGradGuard guard;
        const Tensor last = in[0].narrow(0, images - 1, 1);
        check_equal(group_norm(last, groups, in[1], in[2]), out.narrow(0, images - 1, 1));
      }
}

TEST_CASE("group_norm's variance survives a mean far from zero") {
  for (MemoryFormat format : {kContiguous, kChannelsLast}) {
    // The channels of a group differ, too.
    const Tensor x = (noise({2, 6, 40, 40}) * 0.1 + 1000.0).to(kFloat32).contiguous(format);
    check_close(group_norm(x, 2), group_norm(x.to(kFloat64), 2), 1e-5, 1e-3);
  }
}

TEST_CASE("norms compute only the gradients that are needed") {
  const Tensor x = noise({4, 3, 5}), w = noise({3}), b = noise({3});
  for (bool training : {true, false})
    for (int which = 0; which < 3; ++which) {
      const Tensor inputs[] = {x.detach(), w.detach(), b.detach()};
      const Tensor all[] = {x.clone(), w.clone(), b.clone()};
      for (const Tensor& t : all) t.set_requires_grad();
      inputs[which].set_requires_grad();
      const Tensor mean = zeros({3}, {.dtype = kFloat64}), var = ones({3}, {.dtype = kFloat64});
      const auto run = [&](const Tensor* t) {
        const Tensor y = batch_norm(t[0], mean.clone(), var.clone(), t[1], t[2], training);
        y.backward(noise(y.shape()));
      };
      run(inputs);
      run(all);
      check_equal(inputs[which].grad(), all[which].grad());
      for (int k = 0; k < 3; ++k) CHECK(inputs[k].grad().defined() == (k == which));
    }
}

TEST_CASE("norms in the 16-bit types have float32 statistics") {
  const Tensor x = noise({6, 20, 7, 7}) * 2.0 + 1.0, w = noise({20}), b = noise({20});
  for (DType dtype : {kFloat16, kBFloat16})
    for (DType parameters : {kFloat32, dtype})
      for (MemoryFormat format : {kContiguous, kChannelsLast}) {
        CAPTURE(dtype);
        const double rtol = test::rounding_of(dtype);
        const auto leaf = [](const Tensor& t) { return t.detach().set_requires_grad(); };
        const Tensor h = leaf(x.to(dtype).contiguous(format));
        const Tensor hw = leaf(w.to(parameters)), hb = leaf(b.to(parameters));
        const Tensor mean = zeros({20}, {.dtype = parameters});
        const Tensor var = ones({20}, {.dtype = parameters});
        const Tensor out = batch_norm(h, mean, var, hw, hb, true);
        CHECK(out.dtype() == dtype);
        CHECK(out.is_contiguous(format));

        const Tensor x64 = leaf(h.to(kFloat64)), w64 = leaf(hw.to(kFloat64));
        const Tensor b64 = leaf(hb.to(kFloat64));
        const Tensor mean64 = zeros({20}, {.dtype = kFloat64});
        const Tensor var64 = ones({20}, {.dtype = kFloat64});
        const Tensor exact = batch_norm(x64, mean64, var64, w64, b64, true);
        check_close(out, exact, rtol, 1e-5);
        const double stored = test::rounding_of(parameters);
        check_close(mean, mean64, stored, 1e-6);
        check_close(var, var64, stored);

        const Tensor grad = noise(out.shape()).to(dtype);
        out.backward(grad);
        exact.backward(grad.to(kFloat64));
        CHECK(h.grad().dtype() == dtype);
        CHECK(hw.grad().dtype() == parameters);
        check_close(h.grad(), x64.grad(), rtol, 1e-3);
        check_close(hw.grad(), w64.grad(), stored, 1e-4);
        check_close(hb.grad(), b64.grad(), stored, 1e-4);

        check_close(layer_norm(h, {7}), layer_norm(x64, {7}), rtol, 1e-5);
        const Tensor groups = group_norm(h, 4, hw, hb);
        CHECK(groups.dtype() == dtype);
        CHECK(groups.is_contiguous(format));
        // Normalised; scaled and shifted: two roundings.
        check_close(groups, group_norm(x64, 4, w64, b64), 2 * rtol, 2 * rtol);
      }
}

TEST_CASE("batch_norm in eval mode leaves the statistics, and needs them unchanged for backward") {
  const Tensor x = noise({4, 3}, kFloat32).set_requires_grad();
  const Tensor mean = zeros({3}), var = ones({3});
  const Tensor out = batch_norm(x, mean, var, {}, {}, false);
  CHECK(mean.version() == 0);
  batch_norm(x, mean, var, {}, {}, true);
  CHECK(mean.version() == 1);
  CHECK_THROWS_AS(out.sum().backward(), AutogradError);
}

TEST_CASE("norms of views and of empty batches") {
  const Tensor wide = noise({2, 6, 5, 4}, kFloat32).set_requires_grad();
  const Tensor view = wide.permute({0, 3, 2, 1}).slice(3, 1, 5);
  const Tensor out = batch_norm(view, {}, {}, {}, {}, true);
  check_equal(out, batch_norm(view.detach().contiguous(), {}, {}, {}, {}, true));
  out.backward(ones({1, 1, 1, 1}).expand(out.shape()));
  CHECK(wide.grad().shape() == wide.shape());
  check_equal(layer_norm(view, {4}), layer_norm(view.detach().contiguous(), {4}));

  const Tensor none = zeros({0, 3, 2, 2}).set_requires_grad();
  const Tensor w = ones({3}).set_requires_grad(), b = zeros({3}).set_requires_grad();
  const Tensor mean = full({3}, 5), var = full({3}, 6);
  const Tensor empty_out = batch_norm(none, mean, var, w, b, true);
  CHECK(empty_out.shape() == none.shape());
  empty_out.sum().backward();
  CHECK(none.grad().shape() == none.shape());
  CHECK(w.grad().to_vector<float>() == std::vector<float>(3, 0.0f));
  CHECK(b.grad().to_vector<float>() == std::vector<float>(3, 0.0f));
  CHECK(mean.to_vector<float>() == std::vector<float>(3, 5.0f));
  CHECK(var.to_vector<float>() == std::vector<float>(3, 6.0f));

  CHECK(batch_norm(zeros({2, 0, 3}), {}, {}, {}, {}, true).shape() == Shape{2, 0, 3});
  CHECK(batch_norm(zeros({2, 0}), zeros({0}), ones({0})).shape() == Shape{2, 0});

  const Tensor lw = ones({3}).set_requires_grad();
  layer_norm(zeros({0, 3}), {3}, lw).sum().backward();
  CHECK(lw.grad().to_vector<float>() == std::vector<float>(3, 0.0f));
  CHECK(group_norm(zeros({0, 4, 2}), 2, ones({4}), zeros({4})).shape() == Shape{0, 4, 2});
}

TEST_CASE("norms do not depend on the number of threads") {
  const int before = num_threads();
  const Tensor x = noise({40, 10, 30, 30}, kFloat32).set_requires_grad();
  std::vector<Tensor> results;
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    for (int k = 0; k < 3; ++k) {
      const Tensor w = full({10}, 2).set_requires_grad(), lw = full({30}, 2).set_requires_grad();
      x.set_grad({});
      const Tensor out = k == 0   ? batch_norm(x, {}, {}, w, {}, true)
                         : k == 1 ? batch_norm(x.contiguous(kChannelsLast), {}, {}, w, {}, true)
                                  : layer_norm(x, {30}, lw);
      out.backward(x.detach());
      results.insert(results.end(), {out.detach(), x.grad(), (k < 2 ? w : lw).grad()});
    }
  }
  set_num_threads(before);
  for (std::size_t i = 0; i < 9; ++i) check_equal(results[i], results[i + 9]);
}

TEST_CASE("statistics of parts combine to those of the whole") {
  const Stream stream;
  const Tensor x = noise({50, 7}) * 2.0 + 100.0;
  const TensorOptions f64{.dtype = kFloat64};
  const std::int64_t cuts[] = {0, 20, 20, 21, 50};  // one part is empty
  const Tensor means = empty({4, 7}, f64), m2s = empty({4, 7}, f64), counts = empty({4}, f64);
  for (int p = 0; p < 4; ++p) {
    const Tensor part = x.slice(0, cuts[p], cuts[p + 1]);
    kernels::channel_stats(stream, {part.size(0), 7, 1}, means[p], m2s[p], part);
    counts[p].fill_(static_cast<double>(part.size(0)));
  }
  const Tensor mean = empty({7}, f64), m2 = empty({7}, f64), count = empty({1}, f64);
  kernels::combine_stats(stream, mean, m2, count, means, m2s, counts);
  const Tensor whole_mean = empty({7}, f64), whole_m2 = empty({7}, f64);
  kernels::channel_stats(stream, {50, 7, 1}, whole_mean, whole_m2, x);
  CHECK(count.item<double>() == 50);
  check_close(mean, whole_mean, 1e-13);
  check_close(m2, whole_m2, 1e-10);
  // The count from the device.
  const Tensor invstd = empty({7}, f64), other = empty({7}, f64);
  kernels::batch_norm_finish(stream, invstd, {}, {}, mean, m2, count, 0, 0.1, 1e-5);
  kernels::batch_norm_finish(stream, other, {}, {}, mean, m2, {}, 50, 0.1, 1e-5);
  check_equal(invstd, other);
}

TEST_CASE("norms refuse bad arguments") {
  const Tensor x = noise({4, 3, 2}, kFloat32), w = ones({3}), mean = zeros({3}), var = ones({3});
  CHECK_THROWS_AS(batch_norm(Tensor(), mean, var), ValueError);
  // libtorch's order of arguments.
  const Tensor weight = ones_like(mean).set_requires_grad(), bias = zeros_like(mean);
  CHECK_THROWS_WITH_AS(batch_norm(x, weight, bias, mean, var, true),
                       doctest::Contains("(input, running_mean, running_var, weight, bias)"),
                       ValueError);
  CHECK_THROWS_AS(instance_norm(x, weight, bias), ValueError);
  CHECK(equal(weight, ones_like(mean)));
  CHECK_THROWS_AS(batch_norm(ones({4}), mean, var), ShapeError);
  CHECK_THROWS_AS(batch_norm(x.to(kInt64), mean, var), DTypeError);
  CHECK_THROWS_AS(batch_norm(x, mean, var, ones({4})), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, mean, var, w, ones({3, 1})), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, zeros({2}), var), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, mean, var, w.to(kFloat64)), DTypeError);
  CHECK_THROWS_AS(batch_norm(x, mean, Tensor(), {}, {}, true), ValueError);
  CHECK_THROWS_AS(batch_norm(x, {}, {}), ValueError);
  CHECK_THROWS_AS(batch_norm(x, mean, var, {}, {}, true, 0.1, -1), ValueError);
  CHECK_THROWS_AS(batch_norm(x, mean, var, w.to(Device("cpu:0"))), DeviceError);
  CHECK_THROWS_WITH(batch_norm(ones({1, 3}), mean, var, {}, {}, true),
                    "[batch_norm] cannot train on a single value a channel, got float32[1, 3] on "
                    "cpu; use a larger batch or eval mode");
  CHECK_THROWS_AS(layer_norm(x, {3}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {4, 3, 2, 1}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, Shape{}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {2}, ones({3})), ShapeError);
  CHECK_THROWS_AS(layer_norm(zeros({3, 0}), {0}), ShapeError);
  CHECK_THROWS_AS(group_norm(x, 2), ShapeError);
  CHECK_THROWS_AS(group_norm(x, 0), ValueError);
  CHECK_THROWS_AS(group_norm(x, 3, ones({2})), ShapeError);
  CHECK_THROWS_AS(group_norm(ones({3}), 1), ShapeError);
}
