#include "ferrite/kernels/lstm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Operand;

namespace {

/// Gates lie between 0 and 1 or -1 and 1, cell states within a few units.
kit::Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case kFloat64:
      return {.rtol = 1e-12, .atol = 1e-13};
    case kFloat32:
      return {.rtol = 1e-5, .atol = 2e-6};
    case kFloat16:
      return {.rtol = 2e-3, .atol = 2e-3};
    default:
      return {.rtol = 1.6e-2, .atol = 1.6e-2};
  }
}

struct Sizes {
  std::int64_t steps, rows, width;
  DType dtype;
  bool reverse;
  Shape gates, outputs, states, weight;

  explicit Sizes(KernelCase& c)
      : steps(c.integer(1, 4)),
        rows(c.coin() ? c.integer(1, 5) : c.integer(6, 40)),
        width(c.coin() ? c.integer(1, 9) : c.integer(10, 130)),
        dtype(c.pick({kFloat32, kFloat16, kBFloat16, kFloat64})),
        reverse(c.coin()),
        gates{steps, rows, 4 * width},
        outputs{steps, rows, width},
        states{rows, width},
        weight{4 * width, width} {}

  /// A step's states are rounded, and go into the next one's.
  kit::Tolerance tolerance() const {
    kit::Tolerance t = tolerance_of(dtype);
    t.atol *= static_cast<double>(steps);
    return t;
  }
};

}  // namespace

TEST_CASE("the steps of an LSTM's layer") {
  kit::for_each_case("lstm_steps", 40, [](KernelCase& c) {
    const Sizes s(c);
    const double wide = c.pick({2.0, 30.0});
    const double share = 1 / std::sqrt(static_cast<double>(s.width));
    const Operand gates = c.inout(s.gates, s.dtype, {.low = -wide, .high = wide}),
                  h = c.input(s.states, s.dtype, {.low = -1, .high = 1}),
                  before = c.input(s.states, s.dtype),
                  weight = c.input(s.weight, s.dtype, {.low = -share, .high = share}),
                  cells = c.output(s.outputs, s.dtype), output = c.output(s.outputs, s.dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::lstm_steps(stream, {at(gates), at(cells), at(h), at(before), at(weight), s.reverse},
                          at(output));
    });
    for (const Operand& result : {gates, cells, output}) c.check(result, s.tolerance());
  });
}

TEST_CASE("the gradients of the steps of an LSTM's layer") {
  kit::for_each_case("lstm_steps_backward", 40, [](KernelCase& c) {
    const Sizes s(c);
    const double share = 1 / std::sqrt(static_cast<double>(s.width));
    const Operand sums = c.output(s.gates, s.dtype),
                  grad_c = c.inout(s.states, s.dtype == kFloat64 ? kFloat64 : kFloat32),
                  grad_output = c.inout(s.outputs, s.dtype),
                  gates = c.input(s.gates, s.dtype, {.low = 0, .high = 1}),
                  cells = c.input(s.outputs, s.dtype), before = c.input(s.states, s.dtype),
                  weight = c.input(s.weight, s.dtype, {.low = -share, .high = share});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::lstm_steps_backward(
          stream, {at(gates), at(cells), at(before), at(before), at(weight), s.reverse}, at(sums),
          at(grad_c), at(grad_output));
    });
    c.check(sums, s.tolerance());
    c.check(grad_c, s.tolerance());
  });
}
