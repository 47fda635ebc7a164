// Lion and Muon against their authors' rules in plain loops of float64, and Muon, which does not
// take every parameter, in all that tests of every optimizer do with the others.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ferrite/core/generator.h"
#include "ferrite/ops/creation.h"
#include "ferrite/optim/grad_scaler.h"
#include "ferrite/optim/lion.h"
#include "ferrite/optim/lr_scheduler.h"
#include "ferrite/optim/muon.h"
#include "ferrite/tests/optim/optimizers.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

using Numbers = std::vector<double>;

/// A matrix, row-major.
struct Matrix {
  std::size_t rows, columns;
  Numbers values;
  double& at(std::size_t r, std::size_t c) { return values[r * columns + c]; }
  double at(std::size_t r, std::size_t c) const { return values[r * columns + c]; }
};

Matrix transposed(const Matrix& m) {
  Matrix t{m.columns, m.rows, Numbers(m.values.size())};
  for (std::size_t r = 0; r < m.rows; ++r)
    for (std::size_t c = 0; c < m.columns; ++c) t.at(c, r) = m.at(r, c);
  return t;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix p{a.rows, b.columns, Numbers(a.rows * b.columns)};
  for (std::size_t r = 0; r < a.rows; ++r)
    for (std::size_t c = 0; c < b.columns; ++c)
      for (std::size_t k = 0; k < a.columns; ++k) p.at(r, c) += a.at(r, k) * b.at(k, c);
  return p;
}

/// zeropower_via_newtonschulz5 of the author's program.
Matrix newton_schulz(Matrix x) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool tall = x.rows > x.columns;
  if (tall) x = transposed(x);
  double squares = 0;
  for (double v : x.values) squares += v * v;
  for (double& v : x.values) v /= std::max(std::sqrt(squares), 1e-7);
  for (int i = 0; i < 5; ++i) {
    const Matrix g = product(x, transposed(x)), gg = product(g, g);
    Matrix polynomial = g;
    for (std::size_t k = 0; k < g.values.size(); ++k)
      polynomial.values[k] = b * g.values[k] + c * gg.values[k];
    const Matrix px = product(polynomial, x);
    for (std::size_t k = 0; k < x.values.size(); ++k) x.values[k] = a * x.values[k] + px.values[k];
  }
  return tall ? transposed(x) : x;
}

void muon_reference(const optim::MuonOptions& o, const Shape& shape, Numbers& w, const Numbers& g,
                    Numbers& momentum) {
  const auto rows = static_cast<std::size_t>(shape[0]);
  Matrix u{rows, w.size() / rows, Numbers(w.size())};
  for (std::size_t i = 0; i < w.size(); ++i) {
    momentum[i] += (1 - o.momentum) * (g[i] - momentum[i]);
    u.values[i] = o.nesterov ? g[i] + o.momentum * (momentum[i] - g[i]) : momentum[i];
  }
  const Matrix x = newton_schulz(u);
  const double scale =
      std::sqrt(std::max(1.0, static_cast<double>(u.rows) / static_cast<double>(u.columns)));
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i] *= 1 - o.lr * o.weight_decay;
    w[i] -= o.lr * scale * x.values[i];
  }
}

void lion_reference(const optim::LionOptions& o, Numbers& w, const Numbers& grads, Numbers& m) {
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double g = o.maximize ? -grads[i] : grads[i];
    const double c = o.betas.first * m[i] + (1 - o.betas.first) * g;
    w[i] -= o.lr * ((c > 0) - (c < 0) + o.weight_decay * w[i]);
    m[i] = o.betas.second * m[i] + (1 - o.betas.second) * g;
  }
}

/// Wide, tall, square, and the kernels of a convolution.
const std::vector<Shape>& matrices() {
  static const std::vector<Shape> all = {{5, 9}, {12, 4}, {6, 6}, {8, 3, 2, 2}};
  return all;
}

/// Ten steps beside reference(shape, w, g, m).
template <class O, class Options, class Reference>
void follow(const Options& options, const std::vector<Shape>& shapes, const Device& device,
            DType dtype, double rtol, double atol, const Reference& reference) {
  Generator generator(5);
  std::vector<Tensor> parameters;
  std::vector<Numbers> expected, state;
  for (const Shape& shape : shapes) {
    const Tensor start = randn(shape, {}, &generator).to(dtype);
    parameters.push_back(start.to(device).clone().set_requires_grad());
    expected.push_back(start.to_vector<double>());
    state.emplace_back(expected.back().size());
  }
  O optimizer(parameters, options);
  for (int step = 0; step < 10; ++step) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Tensor grad = randn(shapes[i], {}, &generator).to(dtype);
      parameters[i].set_grad(grad.to(device));
      reference(shapes[i], expected[i], grad.template to_vector<double>(), state[i]);
    }
    optimizer.step();
  }
  for (std::size_t i = 0; i < shapes.size(); ++i)
    check_close(parameters[i].detach(), expected[i], rtol, atol);
}

std::vector<Tensor> random_matrices(std::uint64_t seed, DType dtype = kFloat32) {
  Generator generator(seed);
  std::vector<Tensor> all;
  for (const Shape& shape : matrices())
    all.push_back(randn(shape, {}, &generator).to(dtype).set_requires_grad());
  return all;
}

void set_grads(const std::vector<Tensor>& parameters, std::uint64_t seed, double scale = 1) {
  Generator generator(seed);
  for (const Tensor& p : parameters)
    p.set_grad((randn(p.shape(), {}, &generator).to(p.dtype()) * scale).to(p.device()));
}

void check_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) check_equal(a[i].detach(), b[i].detach());
}

}  // namespace

TEST_CASE("Lion follows its authors' rule") {
  const std::vector<Shape> shapes = {{4, 6}, {7}, {}};
  for (const optim::LionOptions& o :
       {optim::LionOptions{.lr = 0.01}, optim::LionOptions{.lr = 0.02, .weight_decay = 0.1},
        optim::LionOptions{.lr = 0.01, .betas = {0.5, 0.8}, .maximize = true}}) {
    const auto reference = [&](const Shape&, Numbers& w, const Numbers& g, Numbers& m) {
      lion_reference(o, w, g, m);
    };
    follow<optim::Lion>(o, shapes, {}, kFloat64, 1e-12, 1e-14, reference);
    for (const Device& device : test::optim_devices())
      follow<optim::Lion>(o, shapes, device, kFloat32, 1e-5, 1e-6, reference);
  }
}

TEST_CASE("Muon follows its author's rule, on matrices and convolutions") {
  for (const optim::MuonOptions& o :
       {optim::MuonOptions{.lr = 0.02, .weight_decay = 0}, optim::MuonOptions{.lr = 0.05},
        optim::MuonOptions{.lr = 0.05, .momentum = 0.8, .nesterov = false}}) {
    const auto reference = [&](const Shape& shape, Numbers& w, const Numbers& g, Numbers& m) {
      muon_reference(o, shape, w, g, m);
    };
    follow<optim::Muon>(o, matrices(), {}, kFloat64, 1e-10, 1e-12, reference);
    for (const Device& device : test::optim_devices())
      follow<optim::Muon>(o, matrices(), device, kFloat32, 1e-3, 1e-4, reference);
  }
}

TEST_CASE("Muon follows PyTorch's") {
  // tests/golden/record_optim.py
  const test::Golden golden("optim");
  const auto run = [&](const optim::MuonOptions& options, const Device& device, DType dtype) {
    std::vector<Tensor> parameters;
    for (int i = 0; i < 3; ++i) {
      const Tensor start = golden.get("muon_input", fmt::format("start{}", i));
      parameters.push_back(start.to(device, dtype).clone().set_requires_grad());
    }
    optim::Muon muon(parameters, options);
    for (int step = 0; step < 20; ++step) {
      for (int i = 0; i < 3; ++i) {
        const Tensor grads = golden.get("muon_input", fmt::format("grads{}", i));
        // The second parameter has no gradient in step 7.
        parameters[static_cast<std::size_t>(i)].set_grad(
            i == 1 && step == 7 ? Tensor() : grads[step].to(device, dtype));
      }
      muon.step();
    }
    return parameters;
  };
  const std::vector<std::pair<std::string, optim::MuonOptions>> cases{
      {"default", {}},
      {"plain", {.lr = 0.02, .weight_decay = 0, .momentum = 0.8, .nesterov = false}},
      {"original", {.lr = 0.02, .adjust_lr_fn = "original"}},
      {"match_rms_adamw", {.lr = 0.02, .adjust_lr_fn = "match_rms_adamw"}},
      {"spectral_unclamped", {.lr = 0.02, .adjust_lr_fn = "spectral_unclamped"}},
      {"iteration", {.lr = 0.02, .ns_coefficients = {2, -1.5, 0.5}, .eps = 0.5, .ns_steps = 8}}};
  for (const auto& [name, options] : cases) {
    CAPTURE(name);
    const auto check = [&](const std::vector<Tensor>& found, const char* kind, double tolerance) {
      for (std::size_t i = 0; i < found.size(); ++i)
        check_close(found[i].detach().to(kFloat64),
                    golden.get(fmt::format("muon_{}_{}", name, kind), fmt::format("p{}", i)),
                    tolerance, tolerance);
    };
    check(run(options, {}, kFloat64), "exact", 1e-11);
    for (const Device& device : test::optim_devices())
      check(run(options, device, kFloat32), "exact", 1e-4);
    // PyTorch's iteration rounds: less than a hundredth of the way of 20 steps.
    check(run(options, {}, kFloat64), "bfloat16", 0.2 * options.lr);
  }
}

TEST_CASE("a step of Muon has singular values near 1, whatever the gradient's scale") {
  for (const double scale : {1e-4, 1.0, 1e4}) {
    const Tensor p = zeros({6, 6}).set_requires_grad();
    optim::Muon muon({p}, {.lr = 1, .weight_decay = 0});
    set_grads({p}, 3, scale);
    muon.step();
    // The trace of X X^T is the sum of the squared singular values, each about 0.7 to 1.2.
    double squares = 0;
    for (double v : p.to_vector<double>()) squares += v * v;
    CHECK(squares > 6 * 0.4);
    CHECK(squares < 6 * 1.6);
  }
}

TEST_CASE("Muon in groups, with schedules of rate and momentum") {
  const std::vector<Tensor> a = random_matrices(1), b = random_matrices(1);
  optim::Muon grouped({{{a[0], a[1]}, {.lr = 0.02}}, {{a[2], a[3]}, {.lr = 0.1, .momentum = 0.5}}});
  optim::Muon first({b[0], b[1]}, {.lr = 0.02}), second({b[2], b[3]}, {.lr = 0.1, .momentum = 0.5});
  optim::OneCycleLR schedule(grouped, {.max_lr = {0.04, 0.2}, .total_steps = 8});
  for (std::uint64_t step = 0; step < 5; ++step) {
    set_grads(a, step);
    set_grads(b, step);
    first.set_lr(grouped.lr(0));
    second.set_lr(grouped.lr(1));
    first.set_momentum(grouped.momentum(0));
    second.set_momentum(grouped.momentum(1));
    for (optim::Optimizer* o : {&grouped, &first, &second}) o->step();
    schedule.step();
  }
  check_same(a, b);
  CHECK(grouped.momentum() < 0.94);  // on its way from 0.95 and back
}

TEST_CASE("Muon updates 16-bit parameters in float32, and their masters exactly") {
  for (const DType half : {kFloat16, kBFloat16}) {
    const std::vector<Tensor> model = random_matrices(2, half), plain = random_matrices(2, half);
    std::vector<Tensor> exact;
    for (const Tensor& p : model) exact.push_back(p.detach().to(kFloat32).set_requires_grad());
    optim::Muon muon(model, {.lr = 0.02}), reference(exact, {.lr = 0.02}),
        without(plain, {.lr = 0.02});
    muon.use_master_weights();
    for (std::uint64_t step = 0; step < 3; ++step) {
      set_grads(model, step);
      set_grads(plain, step);
      for (std::size_t i = 0; i < exact.size(); ++i)
        exact[i].set_grad(model[i].grad().to(kFloat32));
      muon.step();
      reference.step();
      without.step();
      if (step == 0)
        for (std::size_t i = 0; i < exact.size(); ++i)
          check_equal(plain[i].detach(), exact[i].detach().to(half));
    }
    check_same(muon.master_parameters(), exact);
    for (std::size_t i = 0; i < exact.size(); ++i)
      check_equal(model[i].detach(), exact[i].detach().to(half));
  }
}

TEST_CASE("Muon with a loss scaler, whose overflows leave no trace") {
  const std::vector<Tensor> a = random_matrices(3), b = random_matrices(3);
  optim::Muon scaled(a), plain(b);
  optim::GradScaler scaler({.init_scale = 1024});
  scaler.scale(ones({}));
  for (std::uint64_t step = 0; step < 4; ++step) {
    set_grads(a, step, step % 2 == 0 ? INFINITY : scaler.get_scale());
    scaler.step(scaled);
    scaler.update();
    if (step % 2 == 0) continue;
    set_grads(b, step);
    plain.step();
  }
  CHECK(scaler.get_scale() == 256);
  check_same(a, b);
  CHECK(scaled.state_dict().at("state.3.step").item<int>() == 2);
}

TEST_CASE("a run of Muon resumed from its state dict ends with the same bits") {
  const std::vector<Tensor> a = random_matrices(4), b = random_matrices(4);
  optim::Muon whole(a, {.lr = 0.05, .nesterov = false, .ns_steps = 4}), resumed(b);
  for (std::uint64_t step = 0; step < 3; ++step) {
    set_grads(a, step);
    whole.step();
  }
  for (std::size_t i = 0; i < a.size(); ++i) no_grad([&] { b[i].copy_(a[i]); });
  resumed.load_state_dict(whole.state_dict());
  CHECK(resumed.options().ns_steps == 4);
  CHECK(!resumed.options().nesterov);
  for (std::uint64_t step = 3; step < 6; ++step) {
    set_grads(a, step);
    set_grads(b, step);
    whole.step();
    resumed.step();
  }
  check_same(a, b);
  CHECK(whole.state_dict().at("state.3.momentum_buffer").shape() == Shape{8, 3, 2, 2});
}

TEST_CASE("what Lion and Muon refuse") {
  const Tensor matrix = ones({2, 2}).set_requires_grad(), vector = ones({2}).set_requires_grad();
  CHECK_THROWS_WITH_AS(optim::Muon({matrix, vector}),
                       doctest::Contains("expected matrices and kernels of convolutions, got "
                                         "float32[2] on cpu; give parameters of fewer than two "
                                         "dimensions to another optimizer"),
                       ValueError);
  optim::Muon muon({matrix});
  CHECK_THROWS_AS(muon.add_param_group({vector}, {}), ValueError);
  CHECK(muon.num_groups() == 1);
  CHECK_THROWS_AS(optim::Muon({matrix}, {.lr = -1}), ValueError);
  CHECK_THROWS_AS(optim::Muon({matrix}, {.momentum = 1}), ValueError);
  CHECK_THROWS_AS(optim::Muon({matrix}, {.ns_steps = -1}), ValueError);
  CHECK_THROWS_AS(optim::Muon({matrix}, {.ns_steps = 100}), ValueError);
  CHECK_THROWS_WITH_AS(optim::Muon({matrix}, {.adjust_lr_fn = "adamw"}),
                       doctest::Contains("expected adjust_lr_fn \"original\", "), ValueError);
  CHECK_THROWS_WITH_AS(optim::Lion({vector}, {.betas = {0.9, 1}}),
                       doctest::Contains("expected betas.1 to be in [0, 1), got 1"), ValueError);
  CHECK_THROWS_AS(optim::Lion({vector}, {.weight_decay = -1}), ValueError);
}
