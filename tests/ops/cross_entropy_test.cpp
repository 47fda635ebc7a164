#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/core/stream.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/tests/ops/reduce_util.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;
using autograd::gradcheck;

namespace {

constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};
const char* const kReductionNames[] = {"mean", "sum", "none"};

Tensor targets(const std::vector<std::int64_t>& values) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())});
}

}  // namespace

TEST_CASE("cross_entropy and nll_loss against PyTorch") {
  const Golden golden("loss");
  for (const std::string shape : {"2d", "4d"}) {
    const std::string set = "ce_" + shape;
    const Tensor x = golden.get(set, "x"), target = golden.get(set, "target");
    const Tensor probabilities = golden.get(set, "probabilities");
    for (int r = 0; r < 3; ++r)
      for (bool weighted : {false, true}) {
        const Tensor weight = weighted ? golden.get(set, "weight") : Tensor();
        const std::string reduced = shape + "_" + kReductionNames[r] + "_" + (weighted ? "w" : "");
        for (double smoothing : {0.0, 0.1}) {
          const std::string name = "ce_" + reduced + (smoothing > 0 ? "_0.1" : "_0.0");
          CAPTURE(name);
          const CrossEntropyOptions options{
              .weight = weight, .reduction = kReductions[r], .label_smoothing = smoothing};
          for (MemoryFormat format : {kContiguous, kChannelsLast}) {
            if (shape == "2d" && format == kChannelsLast) continue;
            const Tensor in = x.contiguous(format);
            const auto f = [&](const Tensor& t) { return cross_entropy(t, target, options); };
            check_close(f(in), golden.get(name, "out"), 1e-12);
            check_close(weighted_gradient(f, in), golden.get(name, "grad0"), 1e-11, 1e-14);
            const auto g = [&](const Tensor& t) {
              return cross_entropy(t, probabilities, options);
            };
            check_close(g(in), golden.get(name + "_p", "out"), 1e-12);
            check_close(weighted_gradient(g, in), golden.get(name + "_p", "grad0"), 1e-11, 1e-14);
          }
          const auto h = [&](const Tensor& p) { return cross_entropy(x, p, options); };
          check_close(weighted_gradient(h, probabilities), golden.get(name + "_p", "grad1"), 1e-11,
                      1e-14);
        }
        const std::string name = "nll_" + reduced;
        CAPTURE(name);
        const auto f = [&](const Tensor& t) {
          return nll_loss(t, target, {.weight = weight, .reduction = kReductions[r]});
        };
        const Tensor log_p = log_softmax(x, 1);
        check_close(f(log_p), golden.get(name, "out"), 1e-12);
        check_close(weighted_gradient(f, log_p), golden.get(name, "grad0"), 1e-11, 1e-14);
      }
  }
  const Tensor row = golden.get("ce_4d", "x").select(3, 0).select(2, 0)[0];
  const auto f = [](const Tensor& t) {
    return cross_entropy(t, full({}, 3, {.dtype = kInt64}), {.label_smoothing = 0.2});
  };
  check_close(f(row), golden.get("ce_1d", "out"), 1e-12);
  check_close(weighted_gradient(f, row), golden.get("ce_1d", "grad0"), 1e-11);
}

TEST_CASE("the fused cross_entropy agrees with its parts, at all sizes and types") {
  for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    CAPTURE(dtype);
    for (const Shape& shape : std::vector<Shape>{
             {256, 10}, {1, 1}, {3000, 3}, {4, 1000}, {3, 1025}, {2, 5000}, {2, 7, 200}}) {
      CAPTURE(shape.str());
      const Tensor x = numbers(shape, dtype) * 4;
      Shape positions = shape;
      positions.erase(1);
      const Tensor target = randint(shape[1], positions);
      const Tensor wide = x.to(kFloat64);
      const Tensor expected = gather(log_softmax(wide, 1), 1, target.unsqueeze(1)).squeeze(1) * -1;
      const double rtol = rounding_of(dtype), atol = rounding_of(dtype) / 10;
      check_close(cross_entropy(x, target, {.reduction = Reduction::none}), expected, rtol, atol);
      check_close(cross_entropy(x, target), mean(expected), rtol, atol);
      if (itemsize(dtype) > 2)  // a sum may be too large for float16
        check_close(cross_entropy(x, target, {.reduction = Reduction::sum}), sum(expected), rtol);
      // The gradient: softmax less one at the target.
      const Tensor slopes =
          softmax(wide, 1) - scatter(zeros(shape, {.dtype = kFloat64}), 1, target.unsqueeze(1), 1);
      const Tensor leaf = x.detach().set_requires_grad();
      cross_entropy(leaf, target).backward();
      check_close(
          leaf.grad() * static_cast<double>(target.numel()), slopes, 4 * rtol,
          dtype == kFloat16 ? 2e-4 * static_cast<double>(target.numel()) / 100 + 1e-4 : atol);
    }
  }
}

TEST_CASE("large logits keep their digits") {
  const Tensor x = from_vector<float>({1e4f, 1e4f + 1, 1e4f - 2}, {1, 3}).set_requires_grad();
  const Tensor small = from_vector<float>({0, 1, -2}, {1, 3}).set_requires_grad();
  const Tensor a = cross_entropy(x, targets({0})), b = cross_entropy(small, targets({0}));
  check_close(a, b, 1e-6);
  a.backward();
  b.backward();
  check_close(x.grad(), small.grad(), 1e-6);
  // A certain right answer costs nothing, a certain wrong one its distance.
  const Tensor sure = from_vector<float>({1000, 0, 0, 1000, -INFINITY, 0}, {3, 2});
  check_close(cross_entropy(sure, targets({0, 0, 1}), {.reduction = Reduction::none}),
              {0, 1000, 0});
}

TEST_CASE("targets of class probabilities: class weights get a gradient, nothing is ignored") {
  const Tensor x = from_vector<double>({0.5, -1, 2, 1, 0, -1}, {2, 3});
  const Tensor target = from_vector<double>({0.2, 0.3, 0.5, 1, 0, 0}, {2, 3});
  const Tensor weight = from_vector<double>({1, 2, 0.5}, {3}).set_requires_grad();
  const Tensor loss = cross_entropy(x, target, {.weight = weight});
  check_close(loss, {1.3804914129671977}, 1e-12);
  loss.backward();
  check_close(weight.grad(), {0.3779, 0.4862, 0.0603}, 0, 5e-5);
  CHECK_THROWS_AS(cross_entropy(x, targets({0, 2}), {.weight = weight}), AutogradError);
  CHECK_THROWS_AS(nll_loss(x, targets({0, 2}), {.weight = weight}), AutogradError);

  CHECK_THROWS_WITH_AS(cross_entropy(x, target, {.ignore_index = 0}),
                       doctest::Contains("ignore_index is not supported for a floating target"),
                       ValueError);
  check_equal(cross_entropy(x, target, {.ignore_index = -1}), cross_entropy(x, target));
}

TEST_CASE("ignored and missing targets") {
  const Tensor x = numbers({3, 4}, kFloat32);
  const Tensor ignored = targets({-100, -100, -100});
  check_close(cross_entropy(x, ignored), {NAN});
  check_close(cross_entropy(x, ignored, {.reduction = Reduction::sum}), {0.0});
  check_close(cross_entropy(x, ignored, {.reduction = Reduction::none}), {0.0, 0.0, 0.0});
  const Tensor leaf = x.detach().set_requires_grad();
  cross_entropy(leaf, ignored).backward();
  check_close(leaf.grad(), std::vector<double>(12, 0.0));
  check_close(cross_entropy(x, targets({1, 2, 0}), {.ignore_index = 2}),
              cross_entropy(index_select(x, 0, targets({0, 2})), targets({1, 0})), 1e-6);

  const Tensor none = empty({0, 4}).set_requires_grad();
  check_close(cross_entropy(none, targets({})), {NAN});
  check_close(cross_entropy(none, targets({}), {.reduction = Reduction::sum}), {0.0});
  CHECK(cross_entropy(none, targets({}), {.reduction = Reduction::none}).shape() == Shape({0}));
  cross_entropy(none, targets({})).backward();
  CHECK(none.grad().shape() == Shape({0, 4}));
}

TEST_CASE("a class out of range names value, position and number of classes") {
  const Tensor x = numbers({3, 4}, kFloat32);
  CHECK(message_of<IndexError>([&] {
          cross_entropy(x, targets({1, 4, 0}));
        }) ==
        "[cross_entropy] target 4 at position [1] is out of range for 4 classes (ignore_index is "
        "-100)");
  CHECK(message_of<IndexError>([&] {
          nll_loss(x, targets({1, 3, -1}));
        }) ==
        "[nll_loss] target -1 at position [2] is out of range for 4 classes (ignore_index is "
        "-100)");
  const Tensor map = numbers({2, 4, 3, 5}, kFloat32);
  Tensor target = zeros({2, 3, 5}, {.dtype = kInt64});
  target.select(0, 1).select(0, 2).select(0, 3).fill_(9);
  for (const Tensor& t : {map, map.contiguous(kChannelsLast)})
    CHECK(message_of<IndexError>([&] { cross_entropy(t, target); }) ==
          "[cross_entropy] target 9 at position [1, 2, 3] is out of range for 4 classes "
          "(ignore_index is -100)");
  // On a device with a queue the error surfaces when somebody waits.
  const Device device("cpu:1");
  const Tensor far = x.to(device), bad = targets({1, 4, 0}).to(device);
  const Tensor loss = cross_entropy(far, bad);
  CHECK_THROWS_AS(synchronize(device), IndexError);
}

TEST_CASE("bad arguments to cross_entropy") {
  const Tensor x = numbers({3, 4}, kFloat32), t = targets({0, 1, 2});
  CHECK(message_of<ShapeError>([&] {
          cross_entropy(x, targets({0, 1}));
        }) == "[cross_entropy] input float32[3, 4] on cpu expects target [3], got int64[2] on cpu");
  CHECK_THROWS_AS(cross_entropy(x, numbers({3, 5}, kFloat32)), ShapeError);
  CHECK_THROWS_AS(cross_entropy(x[0], t), ShapeError);
  CHECK_THROWS_AS(cross_entropy(full({}, 1.0), t), ShapeError);
  CHECK_THROWS_AS(cross_entropy(t.unsqueeze(1), t), DTypeError);
  CHECK_THROWS_AS(cross_entropy(x, numbers({3}, kBool)), DTypeError);
  CHECK_THROWS_AS(nll_loss(x, numbers({3}, kFloat32)), DTypeError);
  CHECK_THROWS_AS(cross_entropy(x, t, {.label_smoothing = 1.5}), ValueError);
  CHECK_THROWS_AS(cross_entropy(x, t, {.weight = numbers({3}, kFloat32)}), ShapeError);
  CHECK_THROWS_AS(cross_entropy(x, t, {.weight = numbers({4}, kInt64)}), ShapeError);
  CHECK_THROWS_AS(cross_entropy(x, t.to(Device("cpu:1"))), DeviceError);
  CHECK_THROWS_AS(cross_entropy(Tensor(), t), ValueError);
  CHECK_THROWS_AS(cross_entropy(x, Tensor()), ValueError);
}

TEST_CASE("gradients of cross_entropy, to the second order") {
  const Tensor weight = rand({5}, {.dtype = kFloat64}) + 0.5;
  const Tensor flat = randn({6, 5}, {.dtype = kFloat64}).set_requires_grad();
  const Tensor deep = randn({2, 5, 3}, {.dtype = kFloat64}).set_requires_grad();
  const Tensor few = targets({0, 4, -100, 2, 2, 1});
  for (Reduction reduction : kReductions)
    for (double smoothing : {0.0, 0.2})
      for (const Tensor& w : {Tensor(), weight}) {
        const CrossEntropyOptions options{
            .weight = w, .reduction = reduction, .label_smoothing = smoothing};
        CHECK(gradcheck([&](const auto& in) { return cross_entropy(in[0], few, options); }, {flat},
                        {.second_order = true}));
        CHECK(gradcheck(
            [&](const auto& in) {
              return cross_entropy(in[0], few.reshape({2, 3}), options);
            },
            {deep}, {.second_order = true}));
        CHECK(gradcheck(
            [&](const auto& in) {
              return nll_loss(in[0] * in[0], few, {.weight = w, .reduction = reduction});
            },
            {flat}, {.second_order = true}));
      }
}

TEST_CASE("cross_entropy does not depend on the number of threads") {
  const int before = num_threads();
  const Tensor x = randn({5000, 10}), target = randint(10, {5000});
  Tensor loss[2], grad[2];
  for (int round : {0, 1}) {
    set_num_threads(round ? 4 : 1);
    const Tensor leaf = x.detach().set_requires_grad();
    loss[round] = cross_entropy(leaf, target, {.label_smoothing = 0.1});
    loss[round].backward();
    grad[round] = leaf.grad();
  }
  set_num_threads(before);
  check_equal(loss[1], loss[0]);
  check_equal(grad[1], grad[0]);
}

TEST_CASE("views, other integers and other devices") {
  const Tensor x = numbers({10, 6}, kFloat32), target = targets({0, 5, 3});
  const Tensor strided = numbers({6, 20}, kFloat32).t().slice(0, 0, 18, 6);
  check_close(cross_entropy(strided, target), cross_entropy(strided.contiguous(), target), 1e-6);
  check_equal(cross_entropy(x.slice(0, 0, 3), target.to(kInt32)),
              cross_entropy(x.slice(0, 0, 3), target));
  const Device device("cpu:1");
  const Tensor leaf = x.slice(0, 0, 3).to(device).detach().set_requires_grad();
  cross_entropy(leaf, target.to(device)).backward();
  const Tensor here = x.slice(0, 0, 3).clone().set_requires_grad();
  cross_entropy(here, target).backward();
  check_equal(leaf.grad().cpu(), here.grad());
}

TEST_CASE("ignored targets have a gradient of 0 with create_graph, too") {
  Tensor x = ones({2, 3}).set_requires_grad();
  const Tensor ignored = full({2}, -100, {.dtype = kInt64});
  check_close(autograd::grad({cross_entropy(x, ignored)}, {x}, {}, true, true)[0],
              std::vector<double>(6, 0), 0);
  x = tensor({{1.0, 2.0, 3.0}, {NAN, NAN, NAN}}).set_requires_grad();
  for (const Reduction reduction : kReductions) {
    const Tensor loss = cross_entropy(x, targets({1, -100}), {.reduction = reduction});
    const Tensor gradient = autograd::grad({sum(loss)}, {x}, {}, true, true)[0];
    check_close(gradient[1], {0, 0, 0}, 0);
    const Tensor second = autograd::grad({sum(gradient * gradient)}, {x})[0];
    check_close(second[1], {0, 0, 0}, 0);
    CHECK_FALSE(isnan(second[0]).any().item<bool>());
  }
}
