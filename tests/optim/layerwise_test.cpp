// LARS and LAMB against the papers' formulas in plain loops of float64.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ferrite/core/parallel_for.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/optim/lamb.h"
#include "ferrite/optim/lars.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/optim/optimizers.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

using Numbers = std::vector<double>;

double norm(const Numbers& x) {
  double sum = 0;
  for (double v : x) sum += v * v;
  return std::sqrt(sum);
}

/// A weight of two dimensions, a bias, a weight of zeros.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {{7, 9}, {7}, {3, 2}};
  return all;
}

struct Problem {
  std::vector<Tensor> parameters;
  std::vector<Numbers> reference;
  Generator generator{3};

  Problem(const Device& device, DType dtype) {
    for (const Shape& shape : shapes()) {
      const Tensor start =
          parameters.size() == 2 ? zeros(shape) : randn(shape, {}, &generator).to(dtype);
      reference.push_back(start.to_vector<double>());
      parameters.push_back(start.to(device, dtype).clone().set_requires_grad());
    }
  }
  /// New gradients, as numbers too; those of the second parameter are 0 in step 3.
  std::vector<Numbers> draw(int step) {
    std::vector<Numbers> grads;
    for (std::size_t i = 0; i < shapes().size(); ++i) {
      Tensor grad = randn(shapes()[i], {}, &generator).to(parameters[i].dtype());
      if (i == 1 && step == 3) grad.zero_();
      grads.push_back(grad.to_vector<double>());
      parameters[i].set_grad(grad.to(parameters[i].device()));
    }
    return grads;
  }
  void check(double rtol, double atol) const {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      check_close(parameters[i].detach(), reference[i], rtol, atol);
  }
};

/// w, g and the momentum buffer of one parameter.
void lars_reference(const optim::LARSOptions& o, bool adapts, int step, Numbers& w, Numbers g,
                    Numbers& buffer) {
  if (o.maximize)
    for (double& v : g) v = -v;
  double trust = 1, decay = 0;
  if (adapts) {
    decay = o.weight_decay;
    const double wn = norm(w), gn = norm(g);
    if (wn > 0 && gn > 0) trust = o.trust_coefficient * wn / (gn + decay * wn + o.eps);
    if (wn > 0 && gn > 0 && o.trust_clip) trust = std::min(trust / o.lr, 1.0);
  }
  for (std::size_t i = 0; i < w.size(); ++i) {
    double d = trust * (g[i] + decay * w[i]);
    if (o.momentum != 0) {
      buffer[i] = step == 1 ? d : o.momentum * buffer[i] + (1 - o.dampening) * d;
      d = o.nesterov ? d + o.momentum * buffer[i] : buffer[i];
    }
    w[i] -= o.lr * d;
  }
}

void lamb_reference(const optim::LAMBOptions& o, bool adapts, int step, Numbers& w,
                    const Numbers& g, Numbers& m, Numbers& v) {
  Numbers u(w.size());
  const double decay = adapts ? o.weight_decay : 0;
  const double c1 = o.bias_correction ? 1 - std::pow(o.betas.first, step) : 1,
               c2 = o.bias_correction ? 1 - std::pow(o.betas.second, step) : 1;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double gradient = o.maximize ? -g[i] : g[i];
    m[i] = o.betas.first * m[i] + (1 - o.betas.first) * gradient;
    v[i] = o.betas.second * v[i] + (1 - o.betas.second) * gradient * gradient;
    u[i] = (m[i] / c1) / (std::sqrt(v[i] / c2) + o.eps) + decay * w[i];
  }
  double ratio = 1;
  if (adapts && norm(w) > 0 && norm(u) > 0)
    ratio = std::clamp(norm(w) / norm(u), o.min_trust_ratio, o.max_trust_ratio);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] -= o.lr * ratio * u[i];
}

/// Ten steps of the optimizer beside reference(adapts, step, i, grad).
template <class O, class Options, class Reference>
void compare(const Options& options, Reference&& reference) {
  for (const Device& device : test::optim_devices())
    for (const DType dtype : {kFloat64, kFloat32}) {
      Problem problem(device, dtype);
      O optimizer(problem.parameters, options);
      std::vector<Numbers> first, second;
      for (const Numbers& w : problem.reference) {
        first.emplace_back(w.size());
        second.emplace_back(w.size());
      }
      for (int step = 1; step <= 10; ++step) {
        const std::vector<Numbers> grads = problem.draw(step);
        optimizer.step();
        for (std::size_t i = 0; i < grads.size(); ++i)
          reference(!options.exclude_bias_and_norm || shapes()[i].size() > 1, step,
                    problem.reference[i], grads[i], first[i], second[i]);
      }
      const double loss = dtype == kFloat64 ? 1e-14 : 5e-6;
      problem.check(dtype == kFloat64 ? 1e-12 : 1e-5, loss);
    }
}

}  // namespace

TEST_CASE("LARS is the paper's, with SGD's momentum") {
  for (const optim::LARSOptions& o : std::vector<optim::LARSOptions>{
           {.trust_coefficient = 0.2},
           {.momentum = 0, .weight_decay = 0.05, .trust_coefficient = 0.2},
           {.dampening = 0.1, .weight_decay = 0.05, .exclude_bias_and_norm = false},
           {.lr = 0.01, .weight_decay = 0.05, .trust_coefficient = 0.05, .trust_clip = true},
           {.lr = 1e-4, .trust_coefficient = 0.5, .trust_clip = true, .nesterov = true},
           {.weight_decay = 0.1, .trust_coefficient = 0.02, .nesterov = true, .maximize = true}})
    compare<optim::LARS>(
        o, [&](bool adapts, int step, Numbers& w, const Numbers& g, Numbers& buffer, Numbers&) {
          lars_reference(o, adapts, step, w, g, buffer);
        });
}

TEST_CASE("LAMB is Algorithm 2 of the paper") {
  for (const optim::LAMBOptions& o : std::vector<optim::LAMBOptions>{
           {.lr = 0.05, .exclude_bias_and_norm = false},
           {.lr = 0.05},
           {.lr = 0.05, .betas = {0.8, 0.95}, .weight_decay = 0, .bias_correction = false},
           {.lr = 0.05, .weight_decay = 0.2, .max_trust_ratio = 0.8},
           {.lr = 0.02, .min_trust_ratio = 1.5, .max_trust_ratio = 2, .maximize = true}})
    compare<optim::LAMB>(o, [&](bool adapts, int step, Numbers& w, const Numbers& g, Numbers& m,
                                Numbers& v) { lamb_reference(o, adapts, step, w, g, m, v); });
}

TEST_CASE("scaled gradients give the unscaled ones' bits; overflows leave no trace") {
  for (const auto& [name, make, lr_acts_at_once] : test::all_optimizers()) {
    if (name != "LARS" && name != "LAMB") continue;
    CAPTURE(name);
    for (const Device& device : test::optim_devices()) {
      Problem plain(device, kFloat32), scaled(device, kFloat32);
      const auto a = make(plain.parameters), b = make(scaled.parameters);
      const Tensor inv_scale = full({}, 0.25, {.device = device});
      for (int step = 1; step < 4; ++step) {
        plain.draw(step);
        for (const Tensor& p : scaled.parameters) p.set_grad(full_like(p, INFINITY).detach());
        b->step(inv_scale, ones({}, {.device = device}));
        for (std::size_t i = 0; i < 3; ++i)
          scaled.parameters[i].set_grad(plain.parameters[i].grad() * 4);
        a->step();
        b->step(inv_scale, zeros({}, {.device = device}));
      }
      for (std::size_t i = 0; i < 3; ++i)
        check_equal(scaled.parameters[i].detach(), plain.parameters[i].detach());
    }
  }
}

TEST_CASE("the same bits with every number of threads, and after a checkpoint") {
  const int threads = num_threads();
  for (const auto& [name, make, lr_acts_at_once] : test::all_optimizers()) {
    if (name != "LARS" && name != "LAMB") continue;
    CAPTURE(name);
    std::vector<Tensor> results;
    for (int count : {1, 3}) {
      set_num_threads(count);
      Generator generator(2);
      std::vector<Tensor> params;
      for (std::int64_t n : {70001, 1, 0, 513})
        params.push_back(randn({n, 1}, {}, &generator).set_requires_grad());
      auto optimizer = make(params);
      for (int step = 0; step < 3; ++step) {
        for (const Tensor& p : params) p.set_grad(randn(p.shape(), {}, &generator));
        if (count == 3 && step == 2) {
          const StateDict dict = optimizer->state_dict();
          optimizer = make(params);
          optimizer->load_state_dict(dict);
        }
        optimizer->step();
      }
      for (const Tensor& p : params) results.push_back(p.detach());
    }
    for (std::size_t i = 0; i < 4; ++i) check_equal(results[i], results[i + 4]);
  }
  set_num_threads(threads);
}

TEST_CASE("bad arguments of LARS and LAMB") {
  const Tensor p = ones({2, 2}).set_requires_grad();
  CHECK_THROWS_AS(optim::LARS({p}, {.lr = -1}), ValueError);
  CHECK_THROWS_AS(optim::LARS({p}, {.momentum = -1}), ValueError);
  CHECK_THROWS_AS(optim::LARS({p}, {.trust_coefficient = -1}), ValueError);
  CHECK_THROWS_AS(optim::LARS({p}, {.momentum = 0, .nesterov = true}), ValueError);
  CHECK_THROWS_AS(optim::LARS(std::vector<optim::LARS::Group>{}), ValueError);
  CHECK_THROWS_AS(optim::LAMB({p}, {.lr = -1}), ValueError);
  CHECK_THROWS_AS(optim::LAMB({p}, {.betas = {1, 0.9}}), ValueError);
  CHECK_THROWS_AS(optim::LAMB({p}, {.eps = -1}), ValueError);
  CHECK_THROWS_AS(optim::LAMB({p}, {.weight_decay = -1}), ValueError);
  CHECK_THROWS_AS(optim::LAMB({p}, {.min_trust_ratio = 2, .max_trust_ratio = 1}), ValueError);
  CHECK(optim::LAMB({{{p}, {.lr = 2}}}).lr() == 2);
}
