#include "ferrite/kernels/linear_gradients.h"

#include <doctest/doctest.h>

#include "ferrite/ops/creation.h"
#include "ferrite/tests/kit/doctest_context.h"
#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kernels::LinearGradients;
using kernels::View;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;
using kit::OperandOptions;

namespace {

/// Sums of k terms of at most 1, each addition rounded to float (double), before the result is
/// rounded to its type.
kit::Tolerance tolerance(DType dtype, std::int64_t k) {
  return {.atol = static_cast<double>(k + 3) * (dtype == kFloat64 ? 1e-16 : 6e-8)};
}

/// A layer whose operands have any strides, or are dense and aligned.
void check_gradients(KernelCase& c, std::int64_t rows, std::int64_t ins, std::int64_t outs,
                     bool dense) {
  const DType dtype = c.device().is_cuda() ? kFloat32 : c.pick({kFloat32, kFloat64, kFloat16});
  const OperandOptions any{.layout = dense ? Layout::contiguous : Layout::any,
                           .misalignment = dense ? 0 : -1,
                           .low = -1,
                           .high = 1};
  const bool after_relu = c.coin(), biased = c.coin();
  // The mask and what is masked have the same strides.
  OperandOptions like_mask = any;
  if (after_relu) like_mask.layout = Layout::contiguous;
  const Operand grad = c.input({rows, outs}, dtype, any),
                input = c.input({rows, ins}, dtype, like_mask),
                weight = c.input({outs, ins}, dtype, any);
  const Operand grad_input = c.output({rows, ins}, dtype, like_mask),
                grad_weight = c.output({outs, ins}, dtype, any),
                grad_bias = biased ? c.output({outs}, dtype, any) : Operand();
  c.run([&](const Stream& stream, const kit::Side& at) {
    const LinearGradients out{.input = at(grad_input),
                              .weight = at(grad_weight),
                              .bias = at(grad_bias),
                              .after_relu = after_relu};
    kernels::linear_gradients(stream, out, at(grad), at(input), at(weight));
  });
  c.check(grad_input, tolerance(dtype, outs));
  c.check(grad_weight, tolerance(dtype, rows));
  if (biased) c.check(grad_bias, tolerance(dtype, rows));
}

}  // namespace

TEST_CASE("gradients of linear layers of every layout and small size") {
  kit::for_each_case("linear gradients", 60, [](KernelCase& c) {
    check_gradients(c, c.size(80), c.size(80), c.size(80), false);
  });
}

TEST_CASE("gradients of linear layers with aligned operands") {
  kit::for_each_case("aligned linear gradients", 20, [](KernelCase& c) {
    check_gradients(c, c.integer(1, 80), 4 * c.integer(1, 20), 4 * c.integer(1, 20), true);
  });
}

TEST_CASE("gradients of linear layers with sums of many slices") {
  kit::for_each_case("deep linear gradients", 8, [](KernelCase& c) {
    const bool many_rows = c.coin();
    const std::int64_t many = c.integer(129, 300), few = c.integer(1, 40);
    check_gradients(c, many_rows ? many : few, 4 * c.integer(1, 10), many_rows ? few : many,
                    c.coin());
  });
}

TEST_CASE("small layers are those of float32 with few products and short sums") {
  const auto is_small = [](std::int64_t rows, const Shape& weight, DType dtype = kFloat32) {
    return kernels::is_small_linear(rows, empty(weight, {.dtype = dtype}));
  };
  CHECK(is_small(256, {120, 400}));  // of LeNet-5
  CHECK(is_small(0, {0, 0}));
  CHECK(is_small(512, {512, 64}));
  CHECK_FALSE(is_small(512, {512, 65}));
  CHECK_FALSE(is_small(513, {1, 1}));
  CHECK_FALSE(is_small(1, {513, 1}));
  CHECK_FALSE(is_small(4, {4, 4}, kFloat16));
}

TEST_CASE("on a CUDA device the gradients are of float32") {
  for (const Device& device : kit::test_devices()) {
    if (!device.is_cuda()) continue;
    const Tensor t = ones({2, 2}, {.dtype = kFloat64}).to(device), out = t.clone();
    CHECK_THROWS_AS(
        kernels::linear_gradients(current_stream(device), {.input = out, .weight = out}, t, t, t),
        DTypeError);
  }
}
