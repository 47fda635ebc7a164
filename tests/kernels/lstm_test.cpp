#include "ferrite/kernels/lstm.h"

#include <doctest/doctest.h>

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
  std::int64_t rows, width;
  DType dtype;
  Shape gates, states;

  explicit Sizes(KernelCase& c)
      : rows(c.integer(1, 70)),
        width(c.coin() ? c.integer(1, 9) : c.integer(10, 300)),
        dtype(c.pick({kFloat32, kFloat16, kBFloat16, kFloat64})),
        gates{rows, 4 * width},
        states{rows, width} {}
};

}  // namespace

TEST_CASE("an LSTM's gates and states") {
  kit::for_each_case("lstm_cell", 40, [](KernelCase& c) {
    const Sizes s(c);
    const double wide = c.pick({2.0, 30.0});
    const Operand gates = c.inout(s.gates, s.dtype, {.low = -wide, .high = wide});
    const Operand before = c.input(s.states, s.dtype), next = c.output(s.states, s.dtype),
                  h = c.output(s.states, s.dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::lstm_cell(stream, at(gates), at(before), at(next), at(h));
    });
    for (const Operand& result : {gates, next, h}) c.check(result, tolerance_of(s.dtype));
  });
}

TEST_CASE("the gradients of an LSTM's gates and states") {
  kit::for_each_case("lstm_cell_backward", 40, [](KernelCase& c) {
    const Sizes s(c);
    const Operand sums = c.output(s.gates, s.dtype),
                  grad_c = c.inout(s.states, s.dtype == kFloat64 ? kFloat64 : kFloat32),
                  grad_h = c.input(s.states, s.dtype),
                  gates = c.input(s.gates, s.dtype, {.low = 0, .high = 1}),
                  before = c.input(s.states, s.dtype), after = c.input(s.states, s.dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::lstm_cell_backward(stream, at(sums), at(grad_c), at(grad_h), at(gates), at(before),
                                  at(after));
    });
    c.check(sums, tolerance_of(s.dtype));
    c.check(grad_c, tolerance_of(s.dtype == kFloat64 ? kFloat64 : kFloat32));
  });
}
