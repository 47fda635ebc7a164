#include "ferrite/ops/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

using Options = ScaledDotProductAttentionOptions;

Tensor noise(const Shape& shape, DType dtype = kFloat64) {
  static Generator generator(5);
  return randn(shape, {.dtype = dtype}, &generator);
}

/// By the definition, for query [L, E], key [S, E], value [S, V]; `may(i, j)`: whether query i
/// looks at key j.
template <class May>
std::vector<double> expected(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                             May&& may) {
  std::vector<double> out;
  const auto a = q.to_vector<double>(), b = k.to_vector<double>(), c = v.to_vector<double>();
  const auto length = static_cast<std::size_t>(q.size(0)),
             width = static_cast<std::size_t>(q.size(1));
  const auto keys = static_cast<std::size_t>(k.size(0)),
             values = static_cast<std::size_t>(v.size(1));
  for (std::size_t i = 0; i < length; ++i) {
    std::vector<double> weights(keys), mixed(values);
    double total = 0;
    for (std::size_t j = 0; j < keys; ++j) {
      double product = 0;
      for (std::size_t e = 0; e < width; ++e) product += a[i * width + e] * b[j * width + e];
      weights[j] = may(i, j) ? std::exp(scale * product) : 0;
      total += weights[j];
    }
    for (std::size_t j = 0; j < keys; ++j)
      for (std::size_t e = 0; e < values; ++e) mixed[e] += weights[j] / total * c[j * values + e];
    out.insert(out.end(), mixed.begin(), mixed.end());
  }
  return out;
}

}  // namespace

TEST_CASE("scaled_dot_product_attention by its definition, masked in every way") {
  const Tensor q = noise({5, 3}), k = noise({7, 3}), v = noise({7, 2});
  const double scale = 1 / std::sqrt(3.0);
  const auto all = [](std::size_t, std::size_t) { return true; };
  const auto past = [](std::size_t i, std::size_t j) { return j <= i; };
  const auto attend = [&](const Options& o = {}) {
    return scaled_dot_product_attention(q, k, v, o);
  };
  check_close(attend(), expected(q, k, v, scale, all), 1e-12, 1e-13);
  check_close(attend({.scale = 0.3}), expected(q, k, v, 0.3, all), 1e-12, 1e-13);
  check_close(attend({.is_causal = true}), expected(q, k, v, scale, past), 1e-12, 1e-13);
  const Tensor lower = tril(ones({5, 7}, {.dtype = kBool}));
  check_close(attend({.attn_mask = lower}), expected(q, k, v, scale, past), 1e-12, 1e-13);
  const Tensor added = masked_fill(zeros({5, 7}, {.dtype = kFloat64}), logical_not(lower),
                                   -std::numeric_limits<double>::infinity());
  check_equal(attend({.attn_mask = added}), attend({.attn_mask = lower}));
  const auto some = [](std::size_t, std::size_t j) { return j < 4; };
  check_close(attend({.attn_mask = lt(arange(7), 4)}), expected(q, k, v, scale, some), 1e-12,
              1e-13);
  // What no query looks at may be anything; what may look at nothing is nothing.
  check_equal(attend({.attn_mask = zeros({7}, {.dtype = kBool})}), zeros({5, 2}, kFloat64));

  for (const DType dtype : {kFloat32, kFloat16, kBFloat16}) {
    const double rounding = test::rounding_of(dtype);
    const Tensor a = q.to(dtype), b = k.to(dtype), c = v.to(dtype);
    const Tensor y = scaled_dot_product_attention(a, b, c, {.is_causal = true});
    CHECK(y.dtype() == dtype);
    // Queries, products and weights are rounded to the type.
    check_close(y, expected(a, b, c, scale, past), 4 * rounding, 4 * rounding);
  }
}

TEST_CASE("scaled_dot_product_attention: batches broadcast, gradients, dropout") {
  const Tensor q = noise({2, 1, 4, 3}), k = noise({3, 5, 3}), v = noise({2, 3, 5, 2});
  const Tensor y = scaled_dot_product_attention(q, k, v);
  CHECK(y.shape() == Shape{2, 3, 4, 2});
  check_close(y[1][2], scaled_dot_product_attention(q[1][0], k[2], v[1][2]), 1e-13, 1e-14);
  const Tensor mask = noise({3, 1, 5});
  for (const Options& options : {Options{}, Options{.attn_mask = mask}, Options{.is_causal = true}})
    CHECK(autograd::gradcheck(
        [&](const std::vector<Tensor>& in) {
          return scaled_dot_product_attention(in[0], in[1], in[2], options);
        },
        {q.clone().set_requires_grad(), k.clone().set_requires_grad(),
         v.clone().set_requires_grad()},
        {.second_order = true}));
  const Tensor learned = mask.clone().set_requires_grad();
  CHECK(autograd::gradcheck(
      [&](const std::vector<Tensor>& in) {
        return scaled_dot_product_attention(q, k, v, {.attn_mask = in[0]});
      },
      {learned}));

  // Weights of 1 / 1000 each: dropped at the rate asked for, and the others scaled.
  manual_seed(1);
  const Tensor flat = zeros({1000, 1}), ones_of = ones({1000, 1});
  const Tensor dropped = scaled_dot_product_attention(flat, flat, ones_of, {.dropout_p = 0.25});
  CHECK(dropped.mean().item<double>() == doctest::Approx(1).epsilon(0.01));
  CHECK(dropped.max().item<double>() > 1.02);
}

namespace {

struct Case {
  Shape query, key;
  std::int64_t values;  ///< columns of value
  Shape mask = {};
  DType mask_dtype = kBool;
  bool causal = false, grouped = false, turned = false;
};

/// By ops, in float64 on the host.
Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, const Options& o) {
  const auto each = [&](const Tensor& t) {
    const Shape& s = t.shape();
    const std::int64_t times = o.enable_gqa ? q.size(1) / s[1] : 1;
    return t.unsqueeze(2)
        .expand({s[0], s[1], times, s[2], s[3]})
        .reshape({s[0], s[1] * times, s[2], s[3]});
  };
  Tensor scores = matmul(q, each(k).transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  Tensor may = ones({q.size(-2), k.size(-2)}, {.dtype = kBool});
  if (o.is_causal) may = tril(may);
  if (o.attn_mask.defined() && o.attn_mask.dtype() == kBool) may = logical_and(may, o.attn_mask);
  if (o.attn_mask.defined() && o.attn_mask.dtype() != kBool) scores = scores + o.attn_mask;
  return matmul(softmax(masked_fill(scores, logical_not(may), -1e30), -1), each(v));
}

void check_case(const Case& c, DType dtype, const Device& device) {
  CAPTURE(c.query);
  CAPTURE(dtype);
  CAPTURE(device);
  const auto make = [&](Shape shape) {
    if (c.turned) std::swap(shape[1], shape[2]);
    const Tensor t = noise(shape, kFloat64).to(dtype).to(kFloat64);
    return (c.turned ? t.transpose(1, 2) : t).set_requires_grad();
  };
  Shape values = c.key, result = c.query;
  values[3] = result[3] = c.values;
  const Tensor q = make(c.query), k = make(c.key), v = make(values);
  Options options{.is_causal = c.causal, .enable_gqa = c.grouped};
  if (!c.mask.empty()) {
    const Tensor numbers = noise(c.mask, kFloat64);
    options.attn_mask = c.mask_dtype == kBool ? gt(numbers, -0.5) : numbers.to(dtype).to(kFloat64);
  }
  const Tensor expected = composed(q, k, v, options), grad = noise(result, kFloat64).to(dtype);
  expected.backward(grad.to(kFloat64));
  const auto leaf = [&](const Tensor& t) {
    return t.detach().to(dtype).to(device).set_requires_grad();
  };
  const Tensor a = leaf(q), b = leaf(k), d = leaf(v);
  if (options.attn_mask.defined())
    options.attn_mask =
        (c.mask_dtype == kBool ? options.attn_mask : options.attn_mask.to(dtype)).to(device);
  const Tensor y = scaled_dot_product_attention(a, b, d, options);
  y.backward(grad.to(device));
  const double rounding = test::rounding_of(dtype), near = std::min(8 * rounding, 0.04);
  check_close(y, expected, near, near);
  // Sums of many products, of weights and gradients that are rounded to the type.
  for (const auto& [actual, exact] : {std::pair(a, q), std::pair(b, k), std::pair(d, v)})
    check_close(actual.grad(), exact.grad(), 16 * rounding,
                16 * rounding * exact.grad().abs().max().item<double>());
}

}  // namespace

TEST_CASE(
    "attention in blocks agrees with the composition: sizes, masks, groups, dtypes, devices") {
  const std::vector<Case> cases = {
      {.query = {2, 2, 70, 8}, .key = {2, 2, 70, 8}, .values = 8, .causal = true, .turned = true},
      {.query = {1, 2, 5, 64}, .key = {1, 2, 210, 64}, .values = 16, .mask = {210}},
      {.query = {1, 2, 130, 20},
       .key = {1, 2, 33, 20},
       .values = 70,
       .mask = {2, 130, 33},
       .mask_dtype = kFloat64},
      {.query = {2, 4, 40, 24},
       .key = {2, 2, 100, 24},
       .values = 24,
       .mask = {2, 1, 1, 100},
       .grouped = true,
       .turned = true},
      {.query = {1, 2, 66, 9}, .key = {1, 1, 35, 9}, .values = 5, .causal = true, .grouped = true},
      {.query = {1, 1, 20, 130}, .key = {1, 1, 40, 130}, .values = 150},
      {.query = {1, 1, 1, 1}, .key = {1, 1, 1, 1}, .values = 1},
  };
  for (const Device& device : test::host_and_cuda())
    for (const Case& c : cases)
      for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16})
        check_case(c, dtype, device);
}

TEST_CASE("attention drops the same weights in forward, backward and gradients of gradients") {
  const Tensor k = noise({1, 1, 7, 3}), v = noise({1, 1, 7, 2}), q = noise({1, 2, 5, 3});
  const auto attend = [](const std::vector<Tensor>& in) {
    manual_seed(7);
    return scaled_dot_product_attention(in[0], in[1], in[2],
                                        {.dropout_p = 0.4, .enable_gqa = true});
  };
  const std::vector<Tensor> in{q.clone().set_requires_grad(), k.clone().set_requires_grad(),
                               v.clone().set_requires_grad()};
  CHECK(autograd::gradcheck(attend, in, {.second_order = true}));
  CHECK((attend(in) - scaled_dot_product_attention(q, k, v, {.enable_gqa = true}))
            .abs()
            .max()
            .item<double>() > 0.01);
  if (!cuda::is_available()) return;
  const auto drop_on = [&](const Device& device) {
    manual_seed(7);
    return attend({q.to(device), k.to(device), v.to(device)});
  };
  check_close(drop_on("cuda:0"), drop_on("cpu"), 1e-12, 1e-13);  // of the same random numbers
}

TEST_CASE("attention needs memory in proportion to its length, and the same bits on any threads") {
  for (const Device& device : test::host_and_cuda()) {
    const auto peak = [&](std::int64_t length) {
      const TensorOptions options{.device = device, .requires_grad = true};
      const Tensor q = randn({1, 1, length, 8}, options);
      const auto before = memory_allocated(device);
      reset_peak_memory_stats(device);
      scaled_dot_product_attention(q, q, q, {.is_causal = true}).sum().backward();
      return static_cast<double>(max_memory_allocated(device) - before);
    };
    CHECK(peak(1200) < 5 * peak(300));
    CHECK(peak(1200) < 1200 * 1200 * 4 / 2);
  }
  const int threads = num_threads();
  std::vector<Tensor> results;
  for (const int count : {1, 3}) {
    set_num_threads(count);
    const Tensor q = tril(ones({2, 300, 40})).set_requires_grad();
    const Tensor y = scaled_dot_product_attention(q, q * 0.3, q * 0.7);
    y.backward(q.detach());
    results.insert(results.end(), {y.detach(), q.grad()});
  }
  set_num_threads(threads);
  check_equal(results[0], results[2]);
  check_equal(results[1], results[3]);
}

TEST_CASE("scaled_dot_product_attention under autocast: products in 16 bits") {
  const Tensor q = noise({4, 3}, kFloat32).set_requires_grad(), k = noise({5, 3}, kFloat32),
               v = noise({5, 2}, kFloat32), mask = noise({4, 5}, kFloat32);
  const Tensor full = scaled_dot_product_attention(q, k, v, {.attn_mask = mask});
  const AutocastGuard guard({.dtype = kBFloat16});
  const Tensor y = scaled_dot_product_attention(q, k.to(kBFloat16), v, {.attn_mask = mask});
  CHECK(y.dtype() == kBFloat16);
  check_close(y, full, 0.03, 0.03);
  y.sum().backward();
  CHECK(q.grad().dtype() == kFloat32);
}

TEST_CASE("scaled_dot_product_attention: empty sizes and errors") {
  const auto shape = [](const Shape& q, const Shape& k, const Shape& v) {
    return scaled_dot_product_attention(ones(q), ones(k), ones(v)).shape();
  };
  CHECK(shape({0, 4, 3}, {0, 5, 3}, {0, 5, 2}) == Shape{0, 4, 2});
  CHECK(shape({2, 0, 3}, {2, 5, 3}, {2, 5, 2}) == Shape{2, 0, 2});
  CHECK(shape({4, 3}, {0, 3}, {0, 2}) == Shape{4, 2});
  CHECK(shape({4, 0}, {5, 0}, {5, 2}) == Shape{4, 2});
  CHECK(shape({1, 1}, {1, 1}, {1, 1}) == Shape{1, 1});

  const Tensor q = ones({4, 3}), k = ones({5, 3}), v = ones({5, 2});
  const auto attend = scaled_dot_product_attention;
  CHECK_THROWS_AS(attend(Tensor(), k, v, {}), ValueError);
  CHECK_THROWS_AS(attend(ones({3}), k, v, {}), ShapeError);
  CHECK_THROWS_AS(attend(q, ones({5, 4}), v, {}), ShapeError);
  CHECK_THROWS_AS(attend(q, k, ones({4, 2}), {}), ShapeError);
  CHECK_THROWS_AS(attend(ones({2, 4, 3}), ones({3, 5, 3}), v, {}), ShapeError);
  CHECK_THROWS_AS(attend(q, k.to(kFloat64), v, {}), DTypeError);
  CHECK_THROWS_AS(attend(q.to(kInt64), k.to(kInt64), v.to(kInt64), {}), DTypeError);
  CHECK_THROWS_AS(attend(q, k, v, {.attn_mask = ones({4, 4})}), ShapeError);
  CHECK_THROWS_AS(attend(q, k, v, {.attn_mask = ones({2, 4, 5})}), ShapeError);
  CHECK_THROWS_AS(attend(q, k, v, {.attn_mask = ones({4, 5}, {.dtype = kInt64})}), DTypeError);
  CHECK_THROWS_AS(attend(q, k, v, {.attn_mask = ones({4, 5}), .is_causal = true}), ValueError);
  CHECK_THROWS_AS(attend(q, k, v, {.dropout_p = -0.5}), ValueError);
  CHECK_THROWS_AS(attend(q, k, v, {.enable_gqa = true}), ShapeError);
  CHECK_THROWS_AS(attend(ones({3, 4, 3}), ones({2, 5, 3}), ones({2, 5, 2}), {.enable_gqa = true}),
                  ShapeError);
  CHECK_THROWS_AS(attend(q, k.to(Device("cpu:0")), v, {}), DeviceError);
}

TEST_CASE("a float32 attn_mask goes with queries of any type, as in PyTorch") {
  for (const DType dtype : {kBFloat16, kFloat16, kFloat64}) {
    const Tensor q = randn({2, 4, 8}, {.dtype = dtype});
    const Tensor mask = ones({4, 4}).triu(1).mul(-1e4).set_requires_grad();
    const auto attend = [&](const Tensor& added) {
      return scaled_dot_product_attention(q, q, q, {.attn_mask = added});
    };
    const Tensor out = attend(mask);
    CHECK(out.dtype() == dtype);
    check_equal(attend(mask.detach()), attend(mask.detach().to(dtype)));
    out.sum().backward();
    CHECK(mask.grad().dtype() == kFloat32);
    // Numbers that the type does not have hide keys, but are not infinite.
    const double lowest = std::numeric_limits<float>::lowest();
    for (const double low : {-1e9, lowest})
      CHECK(abs(attend(full({4, 4}, low))).sum().item<double>() > 1);
    check_equal(attend(full({4, 4}, -INFINITY)), zeros_like(q));
  }
}

TEST_CASE("attention of a NaN is NaN, whatever its bits") {
  for (const std::uint32_t bits :
       {0x7fc00000u, 0x7fc00001u, 0x7fffffffu, 0xffc001ffu, 0x7f800001u}) {
    const Tensor q = ones({1, 1, 3, 4});
    std::memcpy(q.data_ptr(), &bits, sizeof bits);
    for (const std::int64_t keys : {1, 5, 40}) {
      const Tensor k = ones({1, 1, keys, 4});
      const Tensor out = scaled_dot_product_attention(q, k, k);
      CHECK(isnan(out[0][0][0]).all().item<bool>());
      CHECK_FALSE(isnan(out[0][0][1]).any().item<bool>());
    }
  }
}
