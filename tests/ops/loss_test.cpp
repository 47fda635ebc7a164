#include "ferrite/ops/loss.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/stream.h"
#include "ferrite/ops/margin_loss.h"
#include "ferrite/tests/ops/reduce_util.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;
using autograd::gradcheck;

namespace {

using Pairwise = std::function<Tensor(const Tensor&, const Tensor&)>;
constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};
const char* const kReductionNames[] = {"mean", "sum", "none"};

/// Value and both gradients (the second where it was recorded), in float64 and float32.
void check_golden(const Golden& golden, const std::string& name, const Tensor& a, const Tensor& b,
                  const Pairwise& f) {
  CAPTURE(name);
  for (DType dtype : {kFloat64, kFloat32}) {
    const double rtol = dtype == kFloat64 ? 1e-11 : 1e-5, atol = dtype == kFloat64 ? 1e-13 : 1e-6;
    const Tensor x = a.to(dtype), y = b.to(dtype);
    check_close(f(x, y), golden.get(name, "out"), rtol, atol);
    check_close(weighted_gradient([&](const Tensor& t) { return f(t, y); }, x),
                golden.get(name, "grad0"), rtol, atol);
    if (golden.has(name, "grad1"))
      check_close(weighted_gradient([&](const Tensor& t) { return f(x, t); }, y),
                  golden.get(name, "grad1"), rtol, atol);
  }
}

}  // namespace

TEST_CASE("losses of pairs against PyTorch") {
  const Golden golden("loss");
  const auto get = [&](const char* name) { return golden.get("pair", name); };
  const Tensor a = get("a"), b = get("b"), p = get("p"), q = get("q"), logits = get("logits");
  for (int i = 0; i < 3; ++i) {
    const Reduction r = kReductions[i];
    const std::string end = std::string("_") + kReductionNames[i];
    check_golden(golden, "mse" + end, a, b, [&](auto& s, auto& t) { return mse_loss(s, t, r); });
    check_golden(golden, "l1" + end, a, b, [&](auto& s, auto& t) { return l1_loss(s, t, r); });
    check_golden(golden, "smooth" + end, a, b, [&](auto& s, auto& t) {
      return smooth_l1_loss(s, t, {.reduction = r, .beta = 0.7});
    });
    check_golden(golden, "smooth0" + end, get("c"), b, [&](auto& s, auto& t) {
      return smooth_l1_loss(s, t, {.reduction = r, .beta = 0});
    });
    check_golden(golden, "huber" + end, a, b, [&](auto& s, auto& t) {
      return huber_loss(s, t, {.reduction = r, .delta = 1.3});
    });
    check_golden(golden, "bcel" + end, logits, q, [&](auto& s, auto& t) {
      return binary_cross_entropy_with_logits(s, t,
                                              {.weight = get("w").to(s.dtype()),
                                               .reduction = r,
                                               .pos_weight = get("pos_weight").to(s.dtype())});
    });
    check_golden(golden, "bcel_plain" + end, logits, q, [&](auto& s, auto& t) {
      return binary_cross_entropy_with_logits(s, t, {.reduction = r});
    });
    check_golden(golden, "kl" + end, a, q,
                 [&](auto& s, auto& t) { return kl_div(s, t, {.reduction = r}); });
    check_golden(golden, "kl_log" + end, a, get("log_q"), [&](auto& s, auto& t) {
      return kl_div(s, t, {.reduction = r, .log_target = true});
    });
    // In float64 only; and PyTorch's 1e-12 is a float32 constant.
    const auto bce = [&](const Tensor& s) {
      return binary_cross_entropy(s, q, {.weight = get("w"), .reduction = r});
    };
    check_close(bce(p), golden.get("bce" + end, "out"), 1e-11);
    check_close(weighted_gradient(bce, p), golden.get("bce" + end, "grad0"), 1e-8);
  }
}

TEST_CASE("kl_div's batchmean is PyTorch's, and other losses have none") {
  const Golden golden("loss");
  const Tensor a = golden.get("pair", "a"), q = golden.get("pair", "q"),
               log_q = golden.get("pair", "log_q");
  constexpr Reduction r = Reduction::batchmean;
  check_golden(golden, "kl_batchmean", a, q,
               [&](auto& s, auto& t) { return kl_div(s, t, {.reduction = r}); });
  check_golden(golden, "kl_log_batchmean", a, log_q, [&](auto& s, auto& t) {
    return kl_div(s, t, {.reduction = r, .log_target = true});
  });
  check_close(kl_div(a[0][0], q[0][0], {.reduction = r}),
              kl_div(a[0][0], q[0][0], {.reduction = Reduction::sum}), 0);
  const Tensor classes = zeros({a.size(0)}, {.dtype = kInt64});
  CHECK_THROWS_WITH_AS(mse_loss(a, q, r),
                       "[mse_loss] batchmean is a reduction of kl_div alone; use mean, sum or none",
                       ValueError);
  CHECK_THROWS_AS(cross_entropy(a, classes, {.reduction = r}), ValueError);
  CHECK_THROWS_AS(nll_loss(a, classes, {.reduction = r}), ValueError);
  CHECK_THROWS_WITH_AS(soft_margin_loss(a, q, r), doctest::Contains("[soft_margin_loss] batchmean"),
                       ValueError);
}

TEST_CASE("losses of 16-bit types, views and broadcast pairs") {
  for (DType dtype : {kFloat16, kBFloat16}) {
    const Tensor x = numbers({4, 6}, dtype), y = numbers({4, 6}, dtype, 2);
    CHECK(mse_loss(x, y).dtype() == dtype);
    check_close(mse_loss(x, y), mse_loss(x.to(kFloat64), y.to(kFloat64)), 2 * rounding_of(dtype));
    check_close(l1_loss(x, y), l1_loss(x.to(kFloat64), y.to(kFloat64)), 2 * rounding_of(dtype));
    // Rounded once.
    const auto each = [&](DType t) {
      return smooth_l1_loss(x.to(t), y.to(t), {Reduction::none, 0.3}).to(dtype);
    };
    check_close(each(dtype), each(kFloat32), 0);
  }
  const Tensor x = numbers({4, 6}), row = numbers({6}, kFloat64, 3);
  check_close(mse_loss(x, row), mse_loss(x, row.expand({4, 6})));
  check_close(l1_loss(x.t(), row.unsqueeze(1)), l1_loss(x, row));
  check_close(mse_loss(empty({0}), empty({0})), {NAN});
  check_close(mse_loss(empty({0}), empty({0}), Reduction::sum), {0.0});
  check_close(huber_loss(full({}, 3.0), full({}, 1.0)), {1.5});
}

TEST_CASE("gradients of the losses of pairs") {
  const autograd::GradcheckOptions second{.second_order = true};
  const Tensor x = randn({3, 4}, {.dtype = kFloat64}).set_requires_grad();
  const Tensor y = randn({3, 4}, {.dtype = kFloat64}).set_requires_grad();
  const Tensor p = (rand({3, 4}, {.dtype = kFloat64}) * 0.8 + 0.1).detach().set_requires_grad();
  const Tensor q = (rand({3, 4}, {.dtype = kFloat64}) * 0.8 + 0.1).detach().set_requires_grad();
  const Tensor w = rand({4}, {.dtype = kFloat64});
  for (Reduction r : kReductions) {
    CHECK(gradcheck([&](const auto& in) { return mse_loss(in[0], in[1], r); }, {x, y}, second));
    CHECK(gradcheck([&](const auto& in) { return l1_loss(in[0], in[1], r); }, {x, y}));
    CHECK(gradcheck([&](const auto& in) { return smooth_l1_loss(in[0], in[1], {.reduction = r}); },
                    {x, y}));
    CHECK(gradcheck([&](const auto& in) { return huber_loss(in[0], in[1], {.reduction = r}); },
                    {x, y}));
    CHECK(gradcheck(
        [&](const auto& in) {
          return binary_cross_entropy_with_logits(
              in[0], in[1], {.weight = w, .reduction = r, .pos_weight = w * 2});
        },
        {x, q}, second));
    CHECK(gradcheck(
        [&](const auto& in) { return binary_cross_entropy(in[0], in[1], {.reduction = r}); },
        {p, q}, second));
    CHECK(gradcheck([&](const auto& in) { return kl_div(in[0], in[1], {.reduction = r}); }, {x, q},
                    second));
  }
}

TEST_CASE("kl_div at targets that are 0, negative or NaN") {
  const Tensor target = from_vector<float>({0, -0.5f, NAN, 0.5f}, {4});
  const Tensor out = kl_div(full({4}, -1.0), target, {.reduction = Reduction::none});
  CHECK(out[0].item<float>() == 0);
  CHECK(std::isnan(out[1].item<float>()));
  CHECK(std::isnan(out[2].item<float>()));
  CHECK(out[3].item<float>() == doctest::Approx(0.5 * std::log(0.5) + 0.5));
}

TEST_CASE("bad arguments to the losses of pairs") {
  const Tensor x = numbers({3, 4}, kFloat32), i = numbers({3, 4}, kInt64);
  CHECK_THROWS_AS(mse_loss(x, numbers({3}, kFloat32)), ShapeError);
  CHECK(message_of<DTypeError>([&] { mse_loss(i, i); }) ==
        "[mse_loss] expected floating types, got int64[3, 4] on cpu and int64[3, 4] on cpu");
  CHECK_THROWS_AS(l1_loss(x, x.to(Device("cpu:1"))), DeviceError);
  CHECK_THROWS_AS(kl_div(Tensor(), x), ValueError);
  CHECK_THROWS_AS(smooth_l1_loss(x, x, {.beta = -1}), ValueError);
  CHECK_THROWS_AS(huber_loss(x, x, {.delta = 0}), ValueError);
  CHECK_THROWS_AS(binary_cross_entropy_with_logits(x, numbers({4}, kFloat32)), ShapeError);
  CHECK_THROWS_AS(binary_cross_entropy(x, x.to(kFloat64)), DTypeError);
  CHECK(message_of<ValueError>([] { binary_cross_entropy(full({2}, 1.5f), full({2}, 1.0f)); }) ==
        "[binary_cross_entropy] expected values in [0, 1], got 1.5");
  const Device device("cpu:1");
  const Tensor bad = full({2}, -1.0f, {.device = device}),
               one = full({2}, 1.0f, {.device = device});
  const Tensor loss = binary_cross_entropy(bad, one);
  CHECK_THROWS_AS(synchronize(device), ValueError);
}

TEST_CASE("smooth_l1 and huber: gradients where the difference is infinite or overflows") {
  const Tensor zero = zeros({4}), huge = tensor({INFINITY, -INFINITY, NAN, 3e38});
  for (const double limit : {0.5, 2.0}) {
    const Tensor x = huge.clone().set_requires_grad(), y = zero.clone().set_requires_grad();
    smooth_l1_loss(x, y, {.reduction = Reduction::sum, .beta = limit}).backward();
    check_close(x.grad(), {1, -1, NAN, 1}, 0);
    check_close(y.grad(), {-1, 1, NAN, -1}, 0);
    const Tensor z = huge.clone().set_requires_grad();
    huber_loss(z, zero, {.reduction = Reduction::sum, .delta = limit}).backward();
    check_close(z.grad(), {limit, -limit, NAN, limit}, 0);
  }
  const Tensor small = tensor({3.0, -2.0, 0.0}).set_requires_grad();  // 1 / beta overflows
  const Tensor losses = smooth_l1_loss(small, zeros({3}), {Reduction::none, 1e-39});
  check_close(losses, {3, 2, 0}, 0);
  losses.sum().backward();
  check_close(small.grad(), {1, -1, 0}, 0);
  // Betas that are 0 or infinite in the precision of the inputs.
  for (const auto& [beta, loss, slope] :
       {std::array{1e-46, 3.0, 1.0}, {1e39, 0.0, 0.0}, {INFINITY, 0.0, 0.0}}) {
    small.set_grad({});
    const Tensor each = smooth_l1_loss(small, zeros({3}), {Reduction::none, beta});
    CHECK(each[0].item<double>() == loss);
    CHECK(each[2].item<double>() == 0);
    each.sum().backward();
    check_close(small.grad(), {slope, -slope, 0}, 0);
  }
  const Tensor half = tensor({60000.0, -60000.0, 300.0, 0.25}, {.dtype = kFloat16});
  const Tensor x = half.clone().set_requires_grad();
  const Tensor target = tensor({-60000.0, 60000.0, 0.0, 0.0}, {.dtype = kFloat16});
  smooth_l1_loss(x, target, {.reduction = Reduction::sum, .beta = 1e-5}).backward();
  check_close(x.grad(), {1, -1, 1, 1}, 0);
  const Tensor z = half.clone().set_requires_grad();
  huber_loss(z, target, {.reduction = Reduction::sum}).backward();
  check_close(z.grad(), {1, -1, 1, 0.25}, 0);
}
