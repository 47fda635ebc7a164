// Tests of the kernels with Ferrite's test kit, and of the op by finite differences.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "swiglu.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/kit/doctest_context.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "kernels.h"

using namespace ferrite;

TEST_CASE("forward, on every device, in every dtype, at every alignment") {
  kit::for_each_case("swiglu", 60, [](kit::KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const Shape shape{c.size(5000)};
    const kit::Operand gate = c.input(shape, dtype, {.low = -6, .high = 6}),
                       value = c.input(shape, dtype), out = c.output(shape, dtype);
    // The kernel under test; then, on the host and in float64, the formula as plain code.
    c.run([&](const Stream& stream,
              const kit::Side& at) { swiglu::forward(stream, at(out), at(gate), at(value)); },
          [&](const Stream&, const kit::Side& at) {
            for (std::int64_t i = 0; i < shape.numel(); ++i) {
              const double x = at(gate).as<double>()[i];
              at(out).as<double>()[i] = x / (1 + std::exp(-x)) * at(value).as<double>()[i];
            }
          });
    c.check(out);
  });
}

TEST_CASE("both gradients") {
  kit::for_each_case("swiglu_backward", 60, [](kit::KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const Shape shape{c.size(5000)};
    const kit::Operand grad = c.input(shape, dtype),
                       gate = c.input(shape, dtype, {.low = -6, .high = 6}),
                       value = c.input(shape, dtype), grad_gate = c.output(shape, dtype),
                       grad_value = c.output(shape, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      swiglu::backward(stream, at(grad_gate), at(grad_value), at(grad), at(gate), at(value));
    });
    // s + x s (1 - s) has a zero at -1.28, where cancellation loses the digits of float32.
    c.check(grad_gate, {.rtol = -1, .atol = 1e-6});
    c.check(grad_value);
  });
}

TEST_CASE("the op's gradient agrees with finite differences") {
  const Tensor gate = randn({3, 5}, {.dtype = kFloat64}),
               value = randn({3, 5}, {.dtype = kFloat64});
  gate.set_requires_grad();
  value.set_requires_grad();
  CHECK(autograd::gradcheck(
      [](const std::vector<Tensor>& in) { return swiglu::swiglu(in[0], in[1]); }, {gate, value}));
  CHECK(autograd::gradcheck(
      [](const std::vector<Tensor>& in) { return swiglu::swiglu(in[0].t(), in[1].t()); },
      {gate, value}));
}

TEST_CASE("the op agrees with Ferrite's ops on every device") {
  for (const Device& device : kit::test_devices()) {
    const auto gradients = [&](auto&& f) {
      manual_seed(3);
      const Tensor gate = randn({4, 33}).to(device).detach(),
                   value = randn({4, 33}).to(device).detach();
      gate.set_requires_grad();
      value.set_requires_grad();
      const Tensor out = f(gate, value);
      out.backward(ones({4, 33}, {.device = device}));
      return std::vector{out, gate.grad(), value.grad()};
    };
    const auto fused = gradients(swiglu::swiglu);
    const auto plain =
        gradients([](const Tensor& g, const Tensor& v) { return g * sigmoid(g) * v; });
    for (std::size_t i = 0; i < fused.size(); ++i)
      CHECK(allclose(fused[i].to(Device("cpu")), plain[i].to(Device("cpu")), 1e-5, 1e-6));
  }
}

TEST_CASE("errors of the op") {
  CHECK_THROWS_AS(swiglu::swiglu(ones({2}), ones({3})), ShapeError);
  CHECK_THROWS_AS(swiglu::swiglu(ones({2}, {.dtype = kInt64}), ones({2}, {.dtype = kInt64})),
                  DTypeError);
  CHECK_THROWS_AS(swiglu::swiglu(ones({2}), ones({2}, {.device = "cpu:1"})), DeviceError);
  CHECK_THROWS_AS(swiglu::swiglu({}, ones({2})), ValueError);
}
