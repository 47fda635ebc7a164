#include "ferrite/optim/clip.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "ferrite/core/parallel_for.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/optim/optimizers.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

Tensor with_grad(const Tensor& grad) {
  const Tensor p = zeros_like(grad);
  p.set_requires_grad();
  p.set_grad(grad);
  return p;
}

}  // namespace

TEST_CASE("clip_grad_norm_ is PyTorch's") {
  const test::Golden golden("optim");
  const Tensor grads[] = {golden.get("input", "grads0")[0], golden.get("input", "grads1")[0]};
  for (double norm_type : {1.0, 2.0, 3.0, double(INFINITY)})
    for (DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16})
      for (const Device& device : test::optim_devices()) {
        const std::string name =
            std::isinf(norm_type) ? "clipinf" : fmt::format("clip{:.1f}", norm_type);
        CAPTURE(name);
        std::vector<Tensor> params;
        for (const Tensor& g : grads) params.push_back(with_grad(g.to(device, dtype).clone()));
        Tensor without = zeros({3});
        params.push_back(without.set_requires_grad());
        const Tensor norm = optim::clip_grad_norm_(params, 1.5, norm_type);
        const double rtol = test::rounding_of(dtype);
        check_close(norm, golden.get(name, "norm"), 4 * rtol);
        check_close(params[0].grad(), golden.get(name, "g0"), 4 * rtol);
        check_close(params[1].grad(), golden.get(name, "g1"), 4 * rtol);
      }
}

TEST_CASE("gradients within the norm stay as they are, over several devices and dtypes too") {
  const Tensor a = with_grad(full({3}, 2.0, {.device = "cpu:1"})),
               b = with_grad(full({1}, 2.0, {.dtype = kFloat64}));
  const Tensor params[] = {a, b};
  CHECK(optim::clip_grad_norm_(params, 5).item<double>() == 4);
  check_close(a.grad(), {2, 2, 2}, 0);
  CHECK(optim::clip_grad_norm_(params, 1).item<double>() == 4);
  check_close(a.grad(), {0.5, 0.5, 0.5}, 1e-6);
  check_close(b.grad(), {0.5}, 1e-6);
}

TEST_CASE("no gradients, not-finite gradients, layouts") {
  CHECK(optim::clip_grad_norm_({}, 1).item<double>() == 0);
  for (double bad : {double(NAN), double(INFINITY)}) {
    const Tensor p = with_grad(tensor({1.0, bad}));
    CHECK(!std::isfinite(optim::clip_grad_norm_({&p, 1}, 1).item<double>()));
  }
  manual_seed(3);
  const Tensor values = randn({2, 3, 4, 6});
  const Tensor view = zeros({2, 3, 4, 12}).slice(3, 0, 12, 2).detach();
  view.copy_(values);
  const Tensor p = with_grad(values.clone()), q = with_grad(values.to(kChannelsLast)),
               r = with_grad(view);
  for (const Tensor* t : {&p, &q, &r}) optim::clip_grad_norm_({t, 1}, 0.1);
  check_close(q.grad(), p.grad(), 1e-6);
  check_close(r.grad(), p.grad(), 1e-6);
}

TEST_CASE("norms that are not finite: an error, and gradients as they were") {
  for (const Device& device : test::optim_devices())
    for (double bad : {double(NAN), double(INFINITY)}) {
      CAPTURE(device.str());
      const Tensor p = with_grad(tensor({3.0, bad}).to(device));
      const auto clip = [&](bool error) {
        optim::clip_grad_norm_({&p, 1}, 1, 2, error);
        synchronize(device);
      };
      CHECK_THROWS_WITH_AS(clip(true), doctest::Contains("total_norm of the gradients"),
                           ValueError);
      check_equal(p.grad().cpu(), tensor({3.F, static_cast<float>(bad)}));
      const auto norm = [&] {
        const Tensor grad = p.grad();
        return optim::get_total_norm({&grad, 1}, INFINITY, true).item<double>();
      };
      CHECK_THROWS_AS(norm(), ValueError);
      CHECK_NOTHROW(clip(false));
      p.set_grad(tensor({3.0, -4.0}).to(device));
      CHECK_NOTHROW(clip(true));
      check_close(p.grad(), {0.6, -0.8});
    }
}

TEST_CASE("a norm by itself, and clipping by one that is known") {
  for (const Device& device : test::optim_devices()) {
    const Tensor a = with_grad(tensor({3.0, 0.0}).to(device)),
                 b = with_grad(tensor({4.0}, {.dtype = kFloat64}));
    const Tensor params[] = {a, b}, grads[] = {a.grad(), Tensor(), b.grad()};
    const Tensor norm = optim::get_total_norm(grads);
    CHECK(norm.device() == device);
    CHECK(norm.item<double>() == 5);
    CHECK(optim::get_total_norm(grads, 1).item<double>() == 7);
    optim::clip_grads_with_norm_(params, 7, norm);
    check_close(a.grad(), {3, 0}, 0);
    optim::clip_grads_with_norm_(params, 1, norm);
    check_close(a.grad(), {0.6, 0}, 1e-6);
    check_close(b.grad(), {0.8}, 1e-6);
    CHECK(norm.item<double>() == 5);
  }
  CHECK(optim::get_total_norm({}).item<double>() == 0);
}

TEST_CASE("the norm has the same bits with every number of threads") {
  manual_seed(4);
  const Tensor p = with_grad(randn({300001}));
  const int threads = num_threads();
  set_num_threads(1);
  const double one = optim::clip_grad_norm_({&p, 1}, INFINITY).item<double>();
  set_num_threads(3);
  CHECK(optim::clip_grad_norm_({&p, 1}, INFINITY).item<double>() == one);
  set_num_threads(threads);
  double sum = 0;
  for (double g : p.grad().to_vector<double>()) sum += g * g;
  CHECK(one == doctest::Approx(std::sqrt(sum)).epsilon(1e-12));
}

TEST_CASE("clip_grad_value_") {
  for (DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    const Tensor p = with_grad(tensor({-3.0, -0.5, 0.25, 7.0}, {.dtype = dtype}));
    optim::clip_grad_value_({&p, 1}, 0.5);
    check_close(p.grad(), {-0.5, -0.5, 0.25, 0.5}, 0);
  }
  const Tensor p = with_grad(tensor({double(NAN), double(INFINITY)}));
  optim::clip_grad_value_({&p, 1}, 1);
  check_close(p.grad(), {double(NAN), 1}, 0);
}

TEST_CASE("bad arguments") {
  CHECK_THROWS_AS(optim::clip_grad_norm_({}, 1, 0), ValueError);
  CHECK_THROWS_AS(optim::clip_grad_value_({}, -1), ValueError);
  CHECK_THROWS_AS(optim::get_total_norm({}, -2), ValueError);
  CHECK_THROWS_AS(optim::clip_grads_with_norm_({}, 1, tensor(1)), ValueError);
  CHECK_THROWS_AS(optim::clip_grads_with_norm_({}, 1, Tensor()), ValueError);
}

TEST_CASE("clip_grads_with_norm_ takes a norm of any floating type") {
  for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    const Tensor p = with_grad(tensor({3.0F, 4.0F}));
    optim::clip_grads_with_norm_(p, 1, tensor(5.0).to(dtype));
    check_close(p.grad(), {0.6, 0.8}, 1e-6);
  }
}
