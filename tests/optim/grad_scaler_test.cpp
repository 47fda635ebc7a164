#include "ferrite/optim/grad_scaler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/cuda.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/clip.h"
#include "ferrite/tests/optim/optimizers.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using optim::GradScaler;
using test::check_close;
using test::check_equal;

namespace {

Tensor parameter(const std::vector<double>& values, const Device& device = {},
                 DType dtype = kFloat32) {
  const Tensor p =
      from_vector(values, {static_cast<std::int64_t>(values.size())}).to(device, dtype);
  p.set_requires_grad();
  return p;
}

void set_grad(const Tensor& p, const std::vector<double>& values) {
  p.set_grad(from_vector(values, p.shape()).to(p.device(), p.dtype()));
}

/// A parameter with its optimizer: p -= grad.
struct Toy {
  explicit Toy(const Device& device = {}, DType dtype = kFloat32)
      : p(parameter({0, 0}, device, dtype)), sgd({p}, {.lr = 1}) {}
  Tensor p;
  optim::SGD sgd;
};

/// Makes the scale on the device, as a first loss does.
void use(GradScaler& scaler, const Device& device) { scaler.scale(ones({}, {.device = device})); }

void one_step(GradScaler& scaler, Toy& toy, const std::vector<double>& grad) {
  use(scaler, toy.p.device());
  set_grad(toy.p, grad);
  scaler.step(toy.sgd);
  scaler.update();
}

constexpr double kInf = INFINITY;

}  // namespace

TEST_CASE("scale multiplies a loss and its gradients; 16-bit losses become float32") {
  for (const Device& device : test::optim_devices())
    for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
      CAPTURE(device.str());
      GradScaler scaler({.init_scale = 1024});
      CHECK(scaler.get_scale() == 1024);
      const Tensor p = parameter({1, 2}, device, dtype);
      const Tensor scaled = scaler.scale(p * 3);
      CHECK(scaled.dtype() == (dtype == kFloat64 ? kFloat64 : kFloat32));
      check_close(scaled, {3072, 6144}, 0);
      scaled.sum().backward();
      check_close(p.grad(), {3072, 3072}, 0);
      const Tensor two[] = {p * 1, p * 2};
      const std::vector<Tensor> both = scaler.scale(two);
      check_close(both[1], {2048, 4096}, 0);
    }
  // More than float16 holds.
  GradScaler scaler;
  const Tensor loss = full({3}, 2.0, {.dtype = kFloat16});
  check_close(scaler.scale(loss), {131072, 131072, 131072}, 0);
  CHECK_THROWS_AS(scaler.scale(ones({}, {.dtype = kInt64})), ValueError);
  CHECK_THROWS_AS(scaler.scale(Tensor()), ValueError);
}

TEST_CASE("a pass that begins at a scaled loss is that of the product") {
  for (const Device& device : test::optim_devices()) {
    CAPTURE(device.str());
    const Tensor p = parameter({2, 3}, device, kFloat32);
    GradScaler scaler({.init_scale = 8});
    const auto loss = [&] { return scaler.scale((p * p).sum()); };
    const auto taken = [&] { return std::exchange(p.mutable_grad(), {}); };
    loss().backward();
    check_close(taken(), {32, 48}, 0);
    {  // hooks and retain_grad() see the gradient of the scaled loss itself
      const Tensor scaled = loss();
      scaled.retain_grad();
      scaled.register_hook([](const Tensor& g) { return g * 2; });
      scaled.backward();
      check_close(scaled.grad(), {2}, 0);
      check_close(taken(), {64, 96}, 0);
    }
    loss().backward(full({}, 3.0, {.device = device}));
    check_close(taken(), {96, 144}, 0);
    {  // a gradient that can be differentiated again: d(2 * 8 p)/dp
      const Tensor first = autograd::grad({loss()}, {p}, {}, false, true)[0];
      first.sum().backward();
      check_close(taken(), {16, 16}, 0);
    }
    const Tensor twice = loss();
    twice.backward();
    CHECK_THROWS_AS(twice.backward(), AutogradError);
    p.mutable_grad() = {};
    // The scale is only read: a loss that is a parameter gets a gradient of its own.
    const Tensor leaf = full({}, 2.0, {.device = device, .requires_grad = true});
    scaler.scale(leaf).backward();
    leaf.grad().mul_(5);
    CHECK(leaf.grad().item<float>() == 40);
    CHECK(scaler.get_scale() == 8);
  }
}

TEST_CASE("the scale grows after the interval and backs off on infinities and NaN") {
  for (const Device& device : test::optim_devices()) {
    CAPTURE(device.str());
    GradScaler scaler({.init_scale = 4, .growth_factor = 3, .growth_interval = 2});
    Toy toy(device);
    const auto after = [&](const std::vector<double>& grad) {
      one_step(scaler, toy, grad);
      return scaler.get_scale();
    };
    CHECK(after({4, 8}) == 4);
    check_close(toy.p, {-1, -2}, 0);
    CHECK(after({4, 8}) == 12);
    CHECK(after({12, 0}) == 12);
    check_close(toy.p, {-3, -4}, 1e-6);  // a twelfth is no binary number
    CHECK(after({1, kInf}) == 6);        // the row is broken
    CHECK(after({6, 0}) == 6);
    CHECK(after({NAN, 0}) == 3);
    CHECK(after({0, -kInf}) == 1.5);
    CHECK(after({1.5, 0}) == 1.5);
    CHECK(after({1.5, 0}) == 4.5);
    check_close(toy.p, {-6, -4}, 1e-6);
    CHECK(scaler.overflows().item<int>() == 3);
    CHECK(scaler.overflows().device() == device);
  }
}

TEST_CASE("a scale that would be infinite does not grow") {
  for (const Device& device : test::optim_devices()) {
    GradScaler scaler({.init_scale = 0x1p127, .growth_interval = 1});
    Toy toy(device);
    one_step(scaler, toy, {0, 0});
    CHECK(scaler.get_scale() == 0x1p127);
  }
}

TEST_CASE("scaled steps are the plain ones, and overflows leave no trace, in every optimizer") {
  for (const Device& device : test::optim_devices())
    for (const auto& [name, make, lr_acts_at_once] : test::all_optimizers())
      for (const DType dtype : {kFloat32, kFloat16, kBFloat16})
        for (const bool unscales : {false, true}) {
          CAPTURE(device.str());
          CAPTURE(name);
          CAPTURE(unscales);
          const Tensor p = parameter({1, -2, 0.5}, device, dtype),
                       q = parameter({1, -2, 0.5}, device, dtype);
          const auto plain = make({p}), scaled = make({q});
          GradScaler scaler({.init_scale = 512, .growth_interval = 100});
          use(scaler, device);
          double scale = 512;
          for (int n = 0; n < 5; ++n) {
            const std::vector<double> grad = {0.5 + n, -1, 0.25};
            const bool overflows = n % 2 == 0;
            if (overflows) {  // in the first step already
              set_grad(q, {1, n == 0 ? kInf : NAN, 1});
              if (unscales) scaler.unscale_(*scaled);
              scaler.step(*scaled);
              scaler.update();
              scale /= 2;
            }
            set_grad(p, grad);
            set_grad(q, {scale * grad[0], scale * grad[1], scale * grad[2]});
            plain->step();
            if (unscales) {
              scaler.unscale_(*scaled);
              check_equal(q.grad(), p.grad());
            }
            scaler.step(*scaled);
            scaler.update();
          }
          // Scales are powers of two.
          check_equal(q.detach(), p.detach());
          const StateDict a = plain->state_dict(), b = scaled->state_dict();
          for (const auto& [key, value] : a) check_equal(b.at(key), value);
          CHECK(scaler.get_scale() == 64);
        }
}

TEST_CASE("gradients are clipped between unscale_ and step") {
  for (const Device& device : test::optim_devices())
    for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
      CAPTURE(device.str());
      Toy toy(device, dtype);
      GradScaler scaler({.init_scale = 256});
      use(scaler, device);
      set_grad(toy.p, {256 * 3, 256 * -4});
      scaler.unscale_(toy.sgd);
      const Tensor norm = optim::clip_grad_norm_(toy.sgd.parameters(), 1);
      scaler.step(toy.sgd);
      scaler.update();
      CHECK(norm.item<double>() == 5);
      check_close(toy.p, {-0.6, 0.8}, 2 * test::rounding_of(dtype), 1e-6);

      set_grad(toy.p, {256 * 3, kInf});
      const Tensor before = toy.p.detach().clone();
      scaler.unscale_(toy.sgd);
      optim::clip_grad_norm_(toy.sgd.parameters(), 1);
      scaler.step(toy.sgd);
      scaler.update();
      check_equal(toy.p.detach(), before);
      CHECK(scaler.get_scale() == 128);
    }
}

TEST_CASE("float16 gradients that would vanish unscaled still move what step() alone updates") {
  for (const Device& device : test::optim_devices()) {
    const Tensor p = parameter({0, 0}, device, kFloat16), q = parameter({0, 0}, device, kFloat16);
    optim::SGD a({p}, {.lr = 0x1p20}), b({q}, {.lr = 0x1p20});
    GradScaler scaler;
    use(scaler, device);
    for (const Tensor& t : {p, q}) set_grad(t, {0x1p-10, 0});  // 2^-26 unscaled
    scaler.step(a);
    scaler.unscale_(b);
    scaler.step(b);
    check_close(p, {-0x1p-6, 0}, 0);
    check_close(q, {0, 0}, 0);
  }
}

TEST_CASE("gradients that are not dense, in several groups") {
  for (const Device& device : test::optim_devices()) {
    const Tensor p = zeros({2, 3}).to(device), q = zeros({2}).to(device);
    for (const Tensor& t : {p, q}) t.set_requires_grad();
    optim::SGD sgd(std::vector<optim::SGD::Group>{{{p}, {.lr = 1}}, {{q}, {.lr = 0.5}}});
    GradScaler scaler({.init_scale = 8});
    use(scaler, device);
    const Tensor wide = full({2, 6}, 16.0).to(device);
    const Tensor grad = wide.slice(1, 0, 6, 2);
    for (const bool unscales : {true, false}) {
      wide.fill_(16.0);
      p.set_grad(grad);
      q.set_grad(full({2}, 8.0).to(device));
      if (unscales) {
        scaler.unscale_(sgd);
        check_close(wide, {2, 16, 2, 16, 2, 16, 2, 16, 2, 16, 2, 16}, 0);
      }
      scaler.step(sgd);
      scaler.update();
    }
    check_close(p, full({2, 3}, -4.0), 0);
    check_close(q, {-1, -1}, 0);
    wide.fill_(kInf);
    scaler.step(sgd);
    scaler.update();
    check_close(p, full({2, 3}, -4.0), 0);
    check_close(q, {-1, -1}, 0);
  }
}

TEST_CASE("several optimizers: each is skipped by what it found, the scale by what any did") {
  for (const Device& device : test::optim_devices()) {
    Toy good(device), bad(device);
    GradScaler scaler({.init_scale = 4, .growth_interval = 2});
    use(scaler, device);
    for (int n = 0; n < 3; ++n) {
      set_grad(good.p, {4, 4});
      set_grad(bad.p, {4, n == 0 ? kInf : 4});
      if (n == 0) scaler.unscale_(good.sgd);
      scaler.step(bad.sgd);
      scaler.step(good.sgd);
      scaler.update();
      if (n == 0) CHECK(scaler.get_scale() == 2);
    }
    check_close(good.p, {-5, -5}, 0);
    check_close(bad.p, {-4, -4}, 0);
    CHECK(scaler.get_scale() == 4);
    CHECK(scaler.overflows().item<int>() == 1);
    // One of them alone.
    set_grad(bad.p, {NAN, 0});
    scaler.step(bad.sgd);
    scaler.update();
    CHECK(scaler.get_scale() == 2);
  }
}

TEST_CASE("an optimizer over several devices: what one finds holds back all") {
  std::vector<std::vector<Device>> pairs = {{"cpu:1", "cpu:2"}, {"cpu:1", "cpu"}, {"cpu", "cpu:1"}};
  if (cuda::device_count() > 1) pairs.push_back({"cuda:0", "cuda:1"});
  if (cuda::is_available()) pairs.push_back({"cuda:0", "cpu"});
  for (const auto& pair : pairs) {
    CAPTURE(pair[0].str());
    CAPTURE(pair[1].str());
    const Tensor p = parameter({0}, pair[0]), q = parameter({0}, pair[1]);
    optim::SGD sgd({p, q}, {.lr = 1});
    GradScaler scaler({.init_scale = 4});
    use(scaler, pair[0]);
    check_close(scaler.scale(ones({}, {.device = pair[1]})), full({}, 4.0), 0);
    for (const bool unscales : {false, true}) {
      for (const auto& [a, b] : {std::pair{4.0, 8.0}, {4.0, kInf}, {double(NAN), 4.0}}) {
        set_grad(p, {a});
        set_grad(q, {b});
        if (unscales) scaler.unscale_(sgd);
        scaler.step(sgd);
        scaler.update();
      }
      check_close(p, {unscales ? -5.0 : -1.0}, 0);
      check_close(q, {unscales ? -10.0 : -2.0}, 0);
    }
    CHECK(scaler.get_scale() == 0.25);
  }
}

TEST_CASE("a step is taken in order, once") {
  Toy toy;
  GradScaler scaler;
  CHECK_THROWS_WITH_AS(scaler.unscale_(toy.sgd), doctest::Contains("[unscale_] there is no scale"),
                       ValueError);
  CHECK_THROWS_AS(scaler.step(toy.sgd), ValueError);
  CHECK_THROWS_AS(scaler.update(), ValueError);
  use(scaler, Device());
  CHECK_THROWS_WITH_AS(scaler.step(toy.sgd), doctest::Contains("has a gradient"), ValueError);
  CHECK_THROWS_WITH_AS(scaler.unscale_(toy.sgd), doctest::Contains("has a gradient"), ValueError);
  CHECK_THROWS_WITH_AS(scaler.update(), doctest::Contains("nothing was looked for"), ValueError);
  set_grad(toy.p, {65536, 0});
  scaler.unscale_(toy.sgd);
  CHECK_THROWS_WITH_AS(scaler.unscale_(toy.sgd), doctest::Contains("already"), ValueError);
  check_close(toy.p.grad(), {1, 0}, 0);
  scaler.step(toy.sgd);
  CHECK_THROWS_WITH_AS(scaler.unscale_(toy.sgd), doctest::Contains("before step"), ValueError);
  CHECK_THROWS_WITH_AS(scaler.step(toy.sgd), doctest::Contains("already"), ValueError);
  check_close(toy.p, {-1, 0}, 0);
  scaler.update();
  scaler.unscale_(toy.sgd);
  scaler.update();  // without a step
  scaler.unscale_(toy.sgd);
}

TEST_CASE("what a call found that threw does not skip the next step") {
  for (const Device& device : test::optim_devices())
    for (const bool unscales : {false, true}) {
      CAPTURE(device.str());
      CAPTURE(unscales);
      Toy toy(device);
      GradScaler scaler({.init_scale = 4});
      use(scaler, device);
      set_grad(toy.p, {kInf, 0});
      for (int n = 0; n < 2; ++n)  // with the flag on the device new, and already there
        CHECK_THROWS_AS(scaler.step(toy.sgd, zeros({3})), ValueError);
      set_grad(toy.p, {4, 8});
      if (unscales) scaler.unscale_(toy.sgd);
      scaler.step(toy.sgd);
      scaler.update();
      check_close(toy.p, {-1, -2}, 0);
      CHECK(scaler.get_scale() == 4);
      CHECK(scaler.overflows().item<int>() == 0);
      // What unscale_() found stays for the step after one that threw.
      set_grad(toy.p, {kInf, 0});
      scaler.unscale_(toy.sgd);
      CHECK_THROWS_AS(scaler.step(toy.sgd, zeros({3})), ValueError);
      scaler.step(toy.sgd);
      scaler.update();
      check_close(toy.p, {-1, -2}, 0);
      CHECK(scaler.get_scale() == 2);
    }
}

TEST_CASE("options out of range") {
  CHECK_THROWS_AS(GradScaler({.init_scale = 0}), ValueError);
  CHECK_THROWS_AS(GradScaler({.init_scale = kInf}), ValueError);
  CHECK_THROWS_AS(GradScaler({.growth_factor = 1}), ValueError);
  CHECK_THROWS_AS(GradScaler({.backoff_factor = 1}), ValueError);
  CHECK_THROWS_AS(GradScaler({.backoff_factor = 0}), ValueError);
  CHECK_THROWS_AS(GradScaler({.growth_interval = 0}), ValueError);
  GradScaler scaler;
  CHECK_THROWS_AS(scaler.set_growth_factor(0.5), ValueError);
  CHECK_THROWS_AS(scaler.set_backoff_factor(2), ValueError);
  CHECK_THROWS_AS(scaler.set_growth_interval(-1), ValueError);
  CHECK(scaler.get_growth_factor() == 2);
  CHECK(scaler.get_backoff_factor() == 0.5);
  CHECK(scaler.get_growth_interval() == 2000);
  CHECK(scaler.is_enabled());
  scaler.set_growth_factor(4);
  scaler.set_backoff_factor(0.125);
  scaler.set_growth_interval(1);
  Toy toy;
  one_step(scaler, toy, {0, 0});
  CHECK(scaler.get_scale() == 262144);
  one_step(scaler, toy, {kInf, 0});
  CHECK(scaler.get_scale() == 32768);
}

TEST_CASE("update takes a new scale, in numbers and tensors") {
  for (const Device& device : test::optim_devices()) {
    Toy toy(device);
    GradScaler scaler({.init_scale = 4, .growth_interval = 2});
    use(scaler, device);
    CHECK_THROWS_AS(scaler.update(-1), ValueError);
    CHECK_THROWS_AS(scaler.update(ones({2})), ValueError);
    CHECK_THROWS_AS(scaler.update(ones({1}, {.dtype = kInt64})), ValueError);
    one_step(scaler, toy, {4, 0});  // the tracker is at 1, and stays there
    set_grad(toy.p, {kInf, 0});
    scaler.step(toy.sgd);
    scaler.update(16);
    CHECK(scaler.get_scale() == 16);
    one_step(scaler, toy, {16, 0});
    check_close(toy.p, {-2, 0}, 0);
    CHECK(scaler.get_scale() == 32);
    set_grad(toy.p, {kInf, 0});
    scaler.unscale_(toy.sgd);
    scaler.update(full({1}, 3.0, {.dtype = kFloat64, .device = device}));
    CHECK(scaler.get_scale() == 3);
    one_step(scaler, toy, {3, 6});
    check_close(toy.p, {-3, -2}, 1e-6);
    scaler.update(tensor({5.0}));  // of the host
    CHECK(scaler.get_scale() == 5);
    CHECK(scaler.overflows().item<int>() == 0);
  }
}

TEST_CASE("a scaler resumed from a checkpoint goes on where the other was") {
  const auto path = std::filesystem::temp_directory_path() / "ferrite_grad_scaler_test.safetensors";
  for (const Device& device : test::optim_devices())
    for (const bool used : {false, true}) {
      CAPTURE(device.str());
      Toy toy(device), other(device);
      GradScaler scaler({.init_scale = 8, .growth_factor = 4, .growth_interval = 3});
      for (int n = 0; n < 5; ++n) one_step(scaler, toy, {n == 0 ? kInf : 0, 0});
      CHECK(scaler.get_scale() == 16);
      save(scaler.state_dict(), path);
      GradScaler resumed;
      if (used) one_step(resumed, other, {kInf, 0});
      resumed.load_state_dict(load(path));
      CHECK(resumed.get_scale() == 16);
      CHECK(resumed.get_growth_factor() == 4);
      CHECK(resumed.get_growth_interval() == 3);
      one_step(resumed, other, {16, 0});
      CHECK(resumed.get_scale() == 16);
      one_step(resumed, other, {16, 0});
      CHECK(resumed.get_scale() == 64);
      CHECK(resumed.overflows().item<int>() == 1);
      check_close(other.p, {-2, 0}, 0);
    }
  std::filesystem::remove(path);
}

TEST_CASE("state dicts: PyTorch's names; what does not fit changes nothing") {
  GradScaler scaler({.init_scale = 2});
  StateDict dict = scaler.state_dict();
  for (const char* name :
       {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"}) {
    CAPTURE(name);
    CHECK(dict.contains(name));
    StateDict without = dict;
    without.insert_or_assign("scale", tensor(32.0));
    without.erase(name);
    CHECK_THROWS_WITH_AS(scaler.load_state_dict(without), doctest::Contains(name), ValueError);
    StateDict two = dict;
    two.insert_or_assign(name, ones({2}));
    CHECK_THROWS_AS(scaler.load_state_dict(two), ValueError);
  }
  CHECK_THROWS_WITH_AS(scaler.load_state_dict({}), doctest::Contains("disabled"), ValueError);
  dict.insert_or_assign("scale", tensor(32.0));
  dict.insert_or_assign("growth_factor", tensor(0.5));
  CHECK_THROWS_AS(scaler.load_state_dict(dict), ValueError);
  CHECK(scaler.get_scale() == 2);
  dict.insert_or_assign("growth_factor", tensor(3.0));
  dict.erase("_overflows");  // as in PyTorch's
  scaler.load_state_dict(dict);
  CHECK(scaler.get_scale() == 32);
  CHECK(scaler.get_growth_factor() == 3);
}

TEST_CASE("a scaler that is disabled leaves everything as it is") {
  GradScaler scaler({.enabled = false});
  Toy toy;
  const Tensor loss = ones({});
  CHECK(scaler.scale(loss).is_same(loss));
  for (const double grad : {1.0, 2.0}) {
    set_grad(toy.p, {grad, 0});
    scaler.unscale_(toy.sgd);
    scaler.step(toy.sgd);
    scaler.update();
  }
  check_close(toy.p, {-3, 0}, 0);
  scaler.update(3);
  scaler.update(ones({}));
  CHECK(scaler.get_scale() == 1);
  CHECK(!scaler.is_enabled());
  CHECK(!scaler.overflows().defined());
  CHECK(scaler.state_dict().empty());
  scaler.load_state_dict({});
}

TEST_CASE("a step is skipped where the caller says so, which is no overflow") {
  for (const Device& device : test::optim_devices())
    for (const bool enabled : {true, false})
      for (const bool dynamic : {true, false})
        for (const bool unscaled : {true, false}) {
          GradScaler scaler({.init_scale = 4, .enabled = enabled, .dynamic = dynamic});
          Toy toy(device);
          const double scale = enabled ? 4 : 1;
          const auto step = [&](double grad, double skip) {
            use(scaler, device);
            set_grad(toy.p, {grad * scale, 0});
            if (unscaled) scaler.unscale_(toy.sgd);
            scaler.step(toy.sgd, full({}, skip, {.device = device}));
            scaler.update();
          };
          step(3, 1);
          check_close(toy.p, {0, 0}, 0);
          step(3, 0);
          check_close(toy.p, {-3, 0}, 0);
          CHECK(scaler.get_scale() == scale);
          if (enabled && dynamic) {
            step(kInf, 0);
            check_close(toy.p, {-3, 0}, 0);
            CHECK(scaler.get_scale() == 2);
          }
        }
}
