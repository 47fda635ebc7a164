// Batch norm with what follows it in the same pass. What it is alone: norm_test.cpp.
#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/norm.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

Tensor noise(const Shape& shape, DType dtype = kFloat64) {
  Generator generator(3);
  return randn(shape, {.dtype = dtype}, &generator);
}

bool check_gradient(const autograd::GradcheckFunction& f, const std::vector<Tensor>& inputs) {
  for (const Tensor& t : inputs) t.set_requires_grad();
  return autograd::gradcheck(f, inputs);
}

/// What follows a batch norm in its passes, and the ops that this stands for.
struct Fused {
  bool residual, relu, pool = false;

  Tensor operator()(const std::vector<Tensor>& in, const Tensor& mean, const Tensor& var,
                    bool training) const {
    return batch_norm(in[0], mean, var, in[1], in[2],
                      {.training = training,
                       .residual = residual ? in[3] : Tensor(),
                       .relu = relu,
                       .max_pool = pool ? std::optional(pooling(in[0].dtype())) : std::nullopt});
  }
  Tensor apart(const std::vector<Tensor>& in, const Tensor& mean, const Tensor& var,
               bool training) const {
    Tensor out = batch_norm(in[0], mean, var, in[1], in[2], training);
    if (residual) out = out + in[3];
    if (relu) out = ferrite::relu(out);
    return pool ? max_pool2d(out, pooling(out.dtype())) : out;
  }
  /// Whether it takes inputs of this shape.
  bool takes(const Shape& shape) const { return !pool || shape.size() == 4; }

 private:
  /// Windows that overlap, but in 16 bits, where sums of gradients would be rounded one by one.
  static MaxPool2dOptions pooling(DType dtype) {
    if (itemsize(dtype) == 2) return {.kernel_size = 2};
    return {.kernel_size = 3, .stride = 2, .padding = 1};
  }
};

constexpr Fused kFused[] = {
    {false, true}, {true, true}, {true, false}, {false, true, true}, {true, true, true}};

}  // namespace

TEST_CASE("batch_norm with what follows it is batch_norm, add, relu and max_pool2d") {
  for (const Shape& shape : std::vector<Shape>{{9, 4}, {5, 6, 11}, {4, 20, 9, 7}, {3, 6, 40, 40}})
    for (const Fused& fused : kFused)
      for (const bool training : {true, false})
        for (const bool affine : {true, false})
          for (DType dtype : {kFloat32, kFloat64, kFloat16})
            for (MemoryFormat format : {kContiguous, kChannelsLast}) {
              if (shape.size() != 4 && format == kChannelsLast) continue;
              if (!fused.takes(shape)) continue;
              CAPTURE(shape);
              CAPTURE(fused.residual);
              CAPTURE(fused.relu);
              CAPTURE(fused.pool);
              CAPTURE(training);
              CAPTURE(dtype);
              const bool residual = fused.residual;
              const Shape channels{shape[1]};
              const DType stored = dtype == kFloat64 ? kFloat64 : kFloat32;
              const auto leaf = [](const Tensor& t) { return t.detach().set_requires_grad(); };
              const Tensor x = noise(shape).to(dtype).contiguous(format);
              const Tensor added = (noise(shape) * -0.7 + 0.1).to(dtype);
              const Tensor w = affine ? noise(channels).to(stored) : Tensor();
              const Tensor b = affine ? (noise(channels) * 0.5).to(stored) : Tensor();
              const auto inputs = [&] {
                std::vector<Tensor> in = {leaf(x), affine ? leaf(w) : w, affine ? leaf(b) : b};
                if (residual) in.push_back(leaf(added));
                return in;
              };
              const std::vector<Tensor> in = inputs(), apart = inputs();
              const auto statistic = [&](double value) {
                return full(channels, value, {.dtype = stored});
              };
              const Tensor mean = statistic(0.2), var = statistic(1.5);
              const Tensor mean_apart = statistic(0.2), var_apart = statistic(1.5);

              const Tensor out = fused(in, mean, var, training);
              const Tensor expected = fused.apart(apart, mean_apart, var_apart, training);
              CHECK(out.dtype() == dtype);
              CHECK(out.is_contiguous(format));
              // With a residual, one rounding takes the place of two.
              const double rtol = residual ? 2 * test::rounding_of(dtype) : 0;
              check_close(out, expected, rtol, residual && dtype == kFloat16 ? 2e-3 : 0);
              check_equal(mean, mean_apart);
              check_equal(var, var_apart);

              // The masks differ close to 0.
              if (residual && fused.relu && dtype == kFloat16) continue;
              const Tensor grad = noise(out.shape()).to(dtype);
              out.backward(grad);
              expected.backward(grad);
              for (std::size_t i = 0; i < in.size(); ++i) {
                if (!in[i].defined()) continue;
                CHECK(in[i].grad().dtype() == in[i].dtype());
                check_close(in[i].grad(), apart[i].grad(), test::rounding_of(in[i].dtype()), 1e-5);
              }
            }
}

TEST_CASE("fused batch norms: gradients by gradcheck") {
  const Tensor mean = noise({3}), var = rand({3}, {.dtype = kFloat64}) + 0.5;
  for (const Shape& shape : std::vector<Shape>{{5, 3}, {2, 3, 4}, {2, 3, 2, 3}})
    for (MemoryFormat format : {kContiguous, kChannelsLast})
      for (const bool training : {true, false})
        for (const Fused& fused : kFused) {
          if (shape.size() != 4 && format == kChannelsLast) continue;
          if (!fused.takes(shape)) continue;
          CAPTURE(shape);
          CAPTURE(training);
          CAPTURE(fused.residual);
          CAPTURE(fused.relu);
          CAPTURE(fused.pool);
          std::vector<Tensor> in = {noise(shape).contiguous(format), noise({3}), noise({3}) * 0.5};
          if (fused.residual) in.push_back(noise(shape).contiguous(format) * -0.7 + 0.1);
          for (Tensor& t : in) t = t.detach();
          CHECK(check_gradient(
              [&](const std::vector<Tensor>& in) {
                return fused(in, mean.clone(), var.clone(), training);
              },
              in));
        }
}

TEST_CASE("a convolution hands its statistics to the batch norm behind it") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16})
    for (const MemoryFormat format : {kContiguous, kChannelsLast})
      for (const bool biased : {false, true}) {
        CAPTURE(dtype);
        CAPTURE(biased);
        const DType stored = dtype == kFloat64 ? kFloat64 : kFloat32;
        const Conv2dFuncOptions options{.stride = 2, .padding = 1};
        const auto leaves = [&] {
          std::vector<Tensor> in = {noise({3, 4, 7, 6}).to(dtype).contiguous(format),
                                    noise({5, 4, 3, 3}).to(dtype), noise({5}).to(dtype),
                                    noise({5}).to(stored)};
          for (Tensor& t : in) t = t.detach().set_requires_grad();
          return in;
        };
        const std::vector<Tensor> in = leaves(), apart = leaves();
        const auto bias = [&](const std::vector<Tensor>& of) { return biased ? of[2] : Tensor(); };
        const Tensor mean = zeros({5}, {.dtype = stored}), same_mean = mean.clone();
        const Tensor var = ones({5}, {.dtype = stored}), same_var = var.clone();

        const auto [y, statistics] = conv2d_statistics(in[0], in[1], bias(in), options);
        CHECK(statistics.mean.dtype() == stored);
        CHECK(!statistics.m2.requires_grad());
        const Tensor out = batch_norm(y, mean, var, in[3], {},
                                      {.training = true, .relu = true, .statistics = statistics});
        const Tensor expected =
            batch_norm(conv2d(apart[0], apart[1], bias(apart), options), same_mean, same_var,
                       apart[3], {}, {.training = true, .relu = true});
        check_equal(out, expected);
        check_equal(mean, same_mean);
        check_equal(var, same_var);
        const Tensor grad = noise(out.shape()).to(dtype);
        out.backward(grad);
        expected.backward(grad);
        for (std::size_t i = 0; i < in.size(); ++i)
          if (i != 2 || biased) check_equal(in[i].grad(), apart[i].grad());
      }
}

TEST_CASE("known statistics that are not the input's are refused") {
  const Tensor x = noise({2, 3, 4, 4}, kFloat32);
  const Tensor good = zeros({3});
  const auto norm = [&](const Tensor& mean, const Tensor& m2) {
    return batch_norm(x, {}, {}, {}, {}, {.training = true, .statistics = {mean, m2}});
  };
  CHECK_NOTHROW(norm(good, ones({3})));
  CHECK_THROWS_AS(norm(good, {}), ValueError);
  CHECK_THROWS_AS(norm(good, zeros({4})), ShapeError);
  CHECK_THROWS_AS(norm(zeros({3}, {.dtype = kFloat64}), good), DTypeError);
  CHECK_THROWS_AS(norm(zeros({3, 2}).select(1, 0), good), DTypeError);
  CHECK_THROWS_AS(conv2d_statistics(x.select(0, 0), noise({2, 3, 1, 1}, kFloat32)), ShapeError);
}

TEST_CASE("fused batch norms compute only the gradients that are needed") {
  const Tensor image = noise({2, 3, 4, 5}).contiguous(kChannelsLast);
  const Tensor values[] = {image, noise({3}), noise({3}) * 0.5, image * -0.7};
  for (const bool training : {true, false})
    for (const Fused& fused : kFused)
      for (std::size_t wanted = 1; wanted < (fused.residual ? 16 : 8); ++wanted) {
        CAPTURE(training);
        CAPTURE(fused.residual);
        CAPTURE(fused.relu);
        CAPTURE(fused.pool);
        CAPTURE(wanted);
        const auto run = [&](std::size_t which) {
          std::vector<Tensor> in;
          for (std::size_t i = 0; i < (fused.residual ? 4 : 3); ++i) {
            in.push_back(values[i].clone());
            if (which >> i & 1) in[i].set_requires_grad();
          }
          const Tensor mean = zeros({3}, {.dtype = kFloat64}), var = ones({3}, {.dtype = kFloat64});
          const Tensor y = fused(in, mean, var, training);
          y.backward(noise(y.shape()));
          return in;
        };
        const std::vector<Tensor> some = run(wanted), all = run(15);
        for (std::size_t i = 0; i < some.size(); ++i) {
          CHECK(some[i].grad().defined() == ((wanted >> i & 1) == 1));
          if (some[i].grad().defined()) check_close(some[i].grad(), all[i].grad(), 1e-12, 1e-14);
        }
      }
}

TEST_CASE("a batch norm before a ReLU and a max pooling: second derivatives, odd windows, errors") {
  const auto pooled = [](const std::vector<Tensor>& in, const MaxPool2dOptions& pool) {
    return batch_norm(in[0], {}, {}, in[1], in[2],
                      {.training = true, .relu = true, .max_pool = pool});
  };
  std::vector<Tensor> in = {noise({2, 2, 5, 4}).contiguous(kChannelsLast), noise({2}), noise({2})};
  for (Tensor& t : in) t.set_requires_grad();
  CHECK(autograd::gradcheck(
      [&](const std::vector<Tensor>& in) { return pooled(in, {.kernel_size = 3, .stride = 2}); },
      in, {.second_order = true}));
  // The only window of a row is in the padding alone: its maximum is minus infinity.
  const Tensor thin = noise({2, 2, 1, 6}).contiguous(kChannelsLast);
  const MaxPool2dOptions around{.kernel_size = {2, 1}, .padding = {1, 0}, .dilation = {2, 1}};
  check_equal(pooled({thin, in[1], in[2]}, around),
              max_pool2d(relu(batch_norm(thin, {}, {}, in[1], in[2], true)), around));
  const Tensor mean = zeros({2}, {.dtype = kFloat64}), var = ones({2}, {.dtype = kFloat64});
  const BatchNormFuncOptions large{
      .training = true, .relu = true, .max_pool = MaxPool2dOptions{.kernel_size = 9}};
  CHECK_THROWS_WITH_AS(batch_norm(in[0], mean, var, {}, {}, large),
                       doctest::Contains("windows of 9 x 9 do not fit"), ShapeError);
  BatchNormFuncOptions huge = large;
  huge.max_pool = MaxPool2dOptions{.kernel_size = 65536, .ceil_mode = true};
  CHECK_THROWS_WITH_AS(batch_norm(in[0], mean, var, {}, {}, huge),
                       doctest::Contains("more than 2^31 cells"), ShapeError);
  check_equal(mean, zeros({2}, {.dtype = kFloat64}));  // nothing has moved
}

TEST_CASE("the gradient of a residual overwrites no gradient that others have") {
  for (const bool relu : {true, false}) {
    CAPTURE(relu);
    const Tensor grad = noise({6, 3}), kept = grad.clone();
    const auto leaves = [] {
      return std::vector<Tensor>{noise({6, 3}).set_requires_grad(),
                                 (noise({6, 3}) * -0.7).detach().set_requires_grad()};
    };
    const auto norm = [&](const std::vector<Tensor>& in, double scale) {
      return batch_norm(in[0] * scale, {}, {}, {}, {},
                        {.training = true, .residual = in[1] * scale, .relu = relu});
    };
    const std::vector<Tensor> together = leaves(), apart = leaves();
    (norm(together, 1) + norm(together, -1)).backward(grad);  // both get the same gradient
    check_equal(grad, kept);
    norm(apart, 1).backward(grad);
    norm(apart, -1).backward(grad.clone());
    check_equal(grad, kept);
    for (std::size_t i = 0; i < 2; ++i)
      check_close(together[i].grad(), apart[i].grad(), 1e-12, 1e-14);
  }
}

TEST_CASE("fused batch norms: empty batches, infinities, changes in place and bad residuals") {
  const Tensor none = zeros({0, 3, 2, 2}).set_requires_grad();
  const Tensor w = ones({3}).set_requires_grad();
  batch_norm(none, {}, {}, w, {}, {.training = true, .residual = none, .relu = true})
      .sum()
      .backward();
  CHECK(none.grad().shape() == none.shape());
  CHECK(w.grad().to_vector<float>() == std::vector<float>(3, 0.0f));

  // As of relu: a NaN stays, and lets the gradient pass.
  const Tensor special = tensor({NAN, -INFINITY, INFINITY, -1.0, 0.0, 2.0}).reshape({6, 1});
  const Tensor mean = zeros({1}), var = ones({1});
  for (const bool residual : {false, true}) {
    const Tensor x = special.to(kFloat32).detach().set_requires_grad();
    const Tensor zero = zeros({6, 1});
    const Tensor y = batch_norm(x, mean, var, {}, {},
                                {.eps = 0, .residual = residual ? zero : Tensor(), .relu = true});
    check_close(y, std::vector<double>{NAN, 0, INFINITY, 0, 0, 2}, 0);
    y.backward(ones({6, 1}));
    check_close(x.grad(), std::vector<double>{1, 0, 1, 0, 0, 1}, 0);
  }

  const Tensor x = noise({4, 3}, kFloat32).set_requires_grad(), residual = ones({4, 3});
  const auto norm = [](const Tensor& x, const Tensor& residual) {
    return batch_norm(x, {}, {}, {}, {}, {.training = true, .residual = residual, .relu = true});
  };
  const Tensor out = norm(x, residual);
  out.detach().add_(1.0);
  CHECK_THROWS_AS(out.sum().backward(), AutogradError);

  CHECK_THROWS_AS(norm(x, ones({3})), ShapeError);
  CHECK_THROWS_AS(norm(x, residual.to(kFloat64)), DTypeError);
  CHECK_THROWS_AS(norm(x, residual.to(Device("cpu:0"))), DeviceError);
  CHECK_THROWS_AS(batch_norm(x, {}, {}, {}, {}, {.relu = true}), ValueError);
  CHECK_THROWS_WITH(norm(ones({1, 3}), {}),
                    "[batch_norm_relu] cannot train on a single value a channel, got float32[1, 3] "
                    "on cpu; use a larger batch or eval mode");
}
