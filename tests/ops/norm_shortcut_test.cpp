// Batch norm with a second one on the shortcut, compared with the two one by one.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/norm.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

Tensor noise(const Shape& shape, std::uint64_t seed, DType dtype = kFloat64) {
  Generator generator(seed);
  return randn(shape, {.dtype = dtype}, &generator);
}

/// Both norms: input, weight, bias of the first, then of the second; weights may be undefined.
struct Norms {
  std::vector<Tensor> in;
  Tensor mean[2], var[2], batches[2];

  Norms(const Shape& shape, DType dtype, MemoryFormat format, bool affine) {
    const DType stored = dtype == kFloat64 ? kFloat64 : kFloat32;
    const Shape channels{shape[1]};
    for (std::uint64_t k = 0; k < 2; ++k) {
      in.push_back((noise(shape, 3 + k) + 0.3).to(dtype).contiguous(format));
      in.push_back(affine ? noise(channels, 5 + k).to(stored) : Tensor());
      in.push_back(affine ? (noise(channels, 7 + k) * 0.5).to(stored) : Tensor());
      mean[k] = full(channels, 0.2, {.dtype = stored});
      var[k] = full(channels, 1.5, {.dtype = stored});
      batches[k] = zeros({}, {.dtype = kInt64});
    }
    for (Tensor& t : in)
      if (t.defined()) t = t.detach();
  }
  void require_grads(std::size_t which = 63) const {
    for (std::size_t i = 0; i < in.size(); ++i)
      if (in[i].defined() && which >> i & 1) in[i].set_requires_grad();
  }
  BatchNormShortcut shortcut() const {
    return {.input = in[3],
            .running_mean = mean[1],
            .running_var = var[1],
            .weight = in[4],
            .bias = in[5],
            .momentum = 0.3,
            .eps = 1e-3,
            .batches = batches[1]};
  }
  Tensor operator()(bool training, bool relu = true) const {
    return batch_norm(
        in[0], mean[0], var[0], in[1], in[2],
        {.training = training, .shortcut = shortcut(), .relu = relu, .batches = batches[0]});
  }
  Tensor apart(bool training, bool with_relu = true) const {
    const Tensor second =
        batch_norm(in[3], mean[1], var[1], in[4], in[5],
                   {.training = training, .momentum = 0.3, .eps = 1e-3, .batches = batches[1]});
    const Tensor first = batch_norm(in[0], mean[0], var[0], in[1], in[2],
                                    {.training = training, .batches = batches[0]});
    return with_relu ? relu(first + second) : first + second;
  }
};

void check_statistics(const Norms& norms, const Norms& apart) {
  for (int k = 0; k < 2; ++k) {
    check_equal(norms.mean[k], apart.mean[k]);
    check_equal(norms.var[k], apart.var[k]);
    check_equal(norms.batches[k], apart.batches[k]);
  }
}

}  // namespace

TEST_CASE("batch_norm with a norm on the shortcut is two norms, an addition and a ReLU") {
  for (const Shape& shape : std::vector<Shape>{{9, 4}, {5, 6, 11}, {4, 20, 9, 7}, {3, 6, 40, 40}})
    for (const bool training : {true, false})
      for (const bool relu : {true, false})
        for (const bool affine : {true, false})
          for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16})
            for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
              if (shape.size() != 4 && format == kChannelsLast) continue;
              CAPTURE(shape);
              CAPTURE(training);
              CAPTURE(relu);
              CAPTURE(affine);
              CAPTURE(dtype);
              const Norms norms(shape, dtype, format, affine), apart(shape, dtype, format, affine);
              norms.require_grads();
              apart.require_grads();
              const Tensor out = norms(training, relu), expected = apart.apart(training, relu);
              CHECK(out.dtype() == dtype);
              CHECK(out.is_contiguous(format));
              // One rounding in place of several; small sums are differences of large results.
              const double rounding = test::rounding_of(dtype);
              check_close(out, expected, 3 * rounding, 8 * rounding);
              check_statistics(norms, apart);
              if (relu && itemsize(dtype) == 2) continue;  // the masks differ close to 0
              const Tensor grad = noise(shape, 9).to(dtype);
              out.backward(grad);
              expected.backward(grad);
              for (std::size_t i = 0; i < norms.in.size(); ++i) {
                if (!norms.in[i].defined()) continue;
                CHECK(norms.in[i].grad().dtype() == norms.in[i].dtype());
                check_close(norms.in[i].grad(), apart.in[i].grad(),
                            test::rounding_of(norms.in[i].dtype()), 2e-5);
              }
            }
}

TEST_CASE("a norm on the shortcut: first and second derivatives by gradcheck") {
  for (const Shape& shape : std::vector<Shape>{{5, 3}, {2, 3, 4}, {2, 3, 2, 3}})
    for (const MemoryFormat format : {kContiguous, kChannelsLast})
      for (const bool training : {true, false}) {
        if (shape.size() != 4 && format == kChannelsLast) continue;
        CAPTURE(shape);
        CAPTURE(training);
        Norms norms(shape, kFloat64, format, true);
        norms.require_grads();
        CHECK(autograd::gradcheck(
            [&](const std::vector<Tensor>& in) {
              Norms of = norms;
              of.in = in;
              for (int k = 0; k < 2; ++k)
                of.mean[k] = of.mean[k].clone(), of.var[k] = of.var[k].clone();
              return of(training);
            },
            norms.in, {.second_order = true}));
      }
}

TEST_CASE("a norm on the shortcut: only the gradients that are needed") {
  const auto run = [](std::size_t which) {
    Norms norms({2, 3, 4, 5}, kFloat64, kChannelsLast, true);
    norms.require_grads(which);
    norms(true).backward(noise({2, 3, 4, 5}, 9));
    return norms.in;
  };
  const std::vector<Tensor> all = run(63);
  for (std::size_t wanted = 1; wanted < 63; ++wanted) {
    CAPTURE(wanted);
    const std::vector<Tensor> some = run(wanted);
    for (std::size_t i = 0; i < some.size(); ++i) {
      CHECK(some[i].grad().defined() == ((wanted >> i & 1) == 1));
      if (some[i].grad().defined()) check_equal(some[i].grad(), all[i].grad());
    }
  }
}

TEST_CASE("the gradients of both biases have memory of their own, and overwrite no other's") {
  const Norms norms({4, 3}, kFloat64, kContiguous, true);
  norms.require_grads();
  const Tensor grad = noise({4, 3}, 9), kept = grad.clone();
  norms(true).backward(grad);
  check_equal(grad, kept);
  check_equal(norms.in[2].grad(), norms.in[5].grad());
  norms.in[2].grad().mul_(2);
  check_equal(norms.in[2].grad(), norms.in[5].grad() * 2);
}

TEST_CASE("a norm on the shortcut takes known statistics, and leaves them as they are") {
  Norms norms({6, 3}, kFloat64, kContiguous, true), apart({6, 3}, kFloat64, kContiguous, true);
  const auto sums = [](const Tensor& x) {
    return ChannelStatistics{x.sum(0), (x * x).sum(0), true};
  };
  const ChannelStatistics first = sums(norms.in[0]), second = sums(norms.in[3]);
  const Tensor kept = second.mean.clone();
  BatchNormShortcut shortcut = norms.shortcut();
  shortcut.statistics = second;
  const Tensor out =
      batch_norm(norms.in[0], norms.mean[0], norms.var[0], norms.in[1], norms.in[2],
                 {.training = true, .shortcut = shortcut, .relu = true, .statistics = first});
  check_close(out, apart.apart(true), 1e-12, 1e-13);
  for (int k = 0; k < 2; ++k) {
    check_close(norms.mean[k], apart.mean[k], 1e-12, 1e-13);
    check_close(norms.var[k], apart.var[k], 1e-12, 1e-13);
  }
  check_equal(second.mean, kept);
}

TEST_CASE("a norm on the shortcut: empty batches, pooling, NaN, and promotion under autocast") {
  Norms none({0, 3, 2, 2}, kFloat32, kContiguous, true);
  none.require_grads();
  none(true).sum().backward();
  for (const Tensor& t : none.in) check_equal(t.grad(), zeros_like(t));

  const Norms pooled({2, 3, 6, 6}, kFloat64, kChannelsLast, true);
  const MaxPool2dOptions pool{.kernel_size = 2};
  check_close(
      batch_norm(pooled.in[0], {}, {}, pooled.in[1], pooled.in[2],
                 {.training = true, .shortcut = pooled.shortcut(), .relu = true, .max_pool = pool}),
      max_pool2d(pooled.apart(true), pool), 1e-12, 1e-13);

  // As of relu: a NaN stays, and lets the gradient pass.
  const Tensor x = noise({4, 2}, 3), bad = x.clone();
  bad.select(0, 1).select(0, 0).fill_(NAN);
  const Tensor y =
      batch_norm(x, {}, {}, {}, {},
                 {.training = true, .shortcut = BatchNormShortcut{.input = bad}, .relu = true});
  CHECK(y.isnan().sum().item<std::int64_t>() == 4);  // the channel that has it

  Norms mixed({4, 2}, kFloat32, kContiguous, true);
  mixed.in[0] = mixed.in[0].to(kBFloat16);
  CHECK_THROWS_AS(mixed(true), DTypeError);
  const AutocastGuard autocast({.dtype = kBFloat16});
  CHECK(mixed(true).dtype() == kFloat32);
}

TEST_CASE("a norm on the shortcut: errors come before statistics move") {
  const Norms norms({4, 3}, kFloat64, kContiguous, true),
      fresh({4, 3}, kFloat64, kContiguous, true);
  const auto run = [&](const BatchNormShortcut& shortcut, const Tensor& residual = {}) {
    return batch_norm(norms.in[0], norms.mean[0], norms.var[0], {}, {},
                      {.training = true, .residual = residual, .shortcut = shortcut, .relu = true});
  };
  const auto with = [&](auto&& change) {
    BatchNormShortcut shortcut = norms.shortcut();
    change(shortcut);
    return shortcut;
  };
  CHECK_THROWS_WITH_AS(run(norms.shortcut(), norms.in[0]),
                       doctest::Contains("a residual or a shortcut, got both"), ValueError);
  CHECK_THROWS_WITH_AS(run(with([](auto& s) {
                         s.input = ones({4, 2}, {.dtype = kFloat64});
                       })),
                       doctest::Contains("[batch_norm_shortcut] the shortcut is"), ShapeError);
  CHECK_THROWS_AS(run(with([](auto& s) { s.input = s.input.to(kFloat32); })), DTypeError);
  CHECK_THROWS_AS(run(with([](auto& s) { s.input = s.input.to(Device("cpu:0")); })), DeviceError);
  CHECK_THROWS_AS(run(with([](auto& s) { s.input = {}; })), Error);
  CHECK_THROWS_AS(run(with([](auto& s) { s.weight = ones({2}, {.dtype = kFloat64}); })),
                  ShapeError);
  CHECK_THROWS_AS(run(with([](auto& s) { s.running_var = {}; })), ValueError);
  CHECK_THROWS_AS(run(with([](auto& s) { s.eps = -1; })), ValueError);
  const Tensor one = ones({1, 3});
  CHECK_THROWS_WITH_AS(batch_norm(one, {}, {}, {}, {},
                                  {.training = true, .shortcut = BatchNormShortcut{.input = one}}),
                       doctest::Contains("cannot train on a single value a channel"), ShapeError);
  CHECK_THROWS_WITH_AS(batch_norm(norms.in[0], norms.mean[0], norms.var[0], {}, {},
                                  {.shortcut = BatchNormShortcut{.input = norms.in[3]}}),
                       doctest::Contains("needs running_mean and running_var"), ValueError);
  check_statistics(norms, fresh);

  const Tensor image = noise({2, 3, 2, 2}, 5), mean = zeros({3}, {.dtype = image.dtype()});
  const BatchNormShortcut counted{
      .input = image, .running_mean = mean, .running_var = ones_like(mean)};
  CHECK_THROWS_AS(batch_norm(image, {}, {}, {}, {},
                             {.training = true,
                              .shortcut = counted,
                              .relu = true,
                              .max_pool = MaxPool2dOptions{.kernel_size = 5}}),
                  ShapeError);
  check_equal(mean, zeros_like(mean));
}
