#include "ferrite/kernels/conv_problem.h"

#include <doctest/doctest.h>

#include "ferrite/ops/creation.h"

using namespace ferrite;
using kernels::ConvLayout;
using kernels::ConvParams;
using kernels::ConvPass;
using kernels::ConvProblem;
using kernels::View;

namespace {

/// Tensors of a convolution; only the geometry matters.
struct Operands {
  Tensor input, weight, out;
  ConvParams params;

  bool for_library() const { return kernels::is_for_library(input, weight, out, params); }
  ConvProblem problem() const {
    return kernels::problem_of(ConvPass::forward, input, weight, out, params);
  }
};

Operands operands(DType dtype = kFloat32, MemoryFormat format = kContiguous) {
  const TensorOptions o{.dtype = dtype, .memory_format = format};
  return {empty({2, 6, 9, 8}, o), empty({4, 6, 3, 3}, o), empty({2, 4, 7, 6}, o), {}};
}

using Four = std::array<std::int64_t, 4>;

}  // namespace

TEST_CASE("libraries are used for dense float32 and 16-bit types") {
  for (const DType dtype : {kFloat32, kFloat16, kBFloat16}) {
    CHECK(operands(dtype).for_library());
    CHECK(operands(dtype, kChannelsLast).for_library());
  }
  CHECK_FALSE(operands(kFloat64).for_library());
  Operands none = operands();
  none.input = empty({0, 6, 9, 8});
  none.out = empty({0, 4, 7, 6});
  CHECK_FALSE(none.for_library());
}

TEST_CASE("what needs indices of 64 bits does not go to a library") {
  const auto side = [](std::int64_t n) {
    const Tensor image = zeros({1, 1, 1, 1}).expand({1, 1, n, n});
    return Operands{image, zeros({1, 1, 1, 1}), image, {}}.for_library();
  };
  CHECK(side(46'340));
  CHECK_FALSE(side(46'341));  // 2^31 elements and some
}

TEST_CASE("depthwise convolutions go to a library only for channels-last") {
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    Operands k = operands(kFloat16, format);
    k.params.groups = 6;
    k.weight = empty({12, 1, 3, 3}, {.dtype = kFloat16, .memory_format = format});
    k.out = empty({2, 12, 7, 6}, {.dtype = kFloat16, .memory_format = format});
    CHECK(k.for_library() == (format == kChannelsLast));
  }
}

TEST_CASE("strides are those of the layout, for dimensions of one element as well") {
  const ConvProblem first = operands().problem();
  CHECK(first.layout == ConvLayout::channels_first);
  CHECK(first.strides(first.input) == Four{432, 72, 8, 1});
  CHECK(first.strides(first.weight) == Four{54, 9, 3, 1});
  const ConvProblem last = operands(kFloat32, kChannelsLast).problem();
  CHECK(last.layout == ConvLayout::channels_last);
  CHECK(last.strides(last.input) == Four{432, 1, 48, 6});
  CHECK(last.strides(last.out) == Four{168, 1, 24, 4});

  // With one channel both layouts are the same.
  const Tensor gray = empty({2, 1, 9, 8});
  CHECK(kernels::lies_in(gray, ConvLayout::channels_first));
  CHECK(kernels::lies_in(gray, ConvLayout::channels_last));
  const Tensor gaps = empty({2, 6, 9, 16}).slice(3, 0, INT64_MAX, 2);
  CHECK_FALSE(kernels::lies_in(gaps, ConvLayout::channels_first));
  CHECK_FALSE(kernels::lies_in(gaps, ConvLayout::channels_last));
}

TEST_CASE("the layout is the one with the fewest copied elements") {
  Operands k = operands(kFloat32, kChannelsLast);
  k.weight = empty({4, 6, 3, 3});
  CHECK(k.problem().layout == ConvLayout::channels_last);
  k.input = empty({2, 6, 9, 8});
  CHECK(k.problem().layout == ConvLayout::channels_first);
  // If both are possible, the tensor cores decide.
  for (const DType dtype : {kFloat32, kBFloat16}) {
    const Tensor pixel = empty({4, 5, 1, 1}, {.dtype = dtype});
    CHECK((kernels::layout_of(pixel, pixel, pixel) == ConvLayout::channels_last) ==
          (dtype == kBFloat16));
  }
}

TEST_CASE("the padding after the input is symmetric where the size of the output allows") {
  struct Case {
    std::int64_t size, kernel, stride, padding, dilation, after;
  };
  // With stride 2, the last padded row may not be read: the padding is symmetric all the same.
  for (const auto& [size, kernel, stride, padding, dilation, after] : {Case{8, 3, 1, 1, 1, 1},
                                                                       {8, 4, 2, 1, 1, 1},
                                                                       {8, 3, 2, 1, 1, 1},
                                                                       {9, 2, 2, 0, 1, 0},
                                                                       {8, 3, 1, 2, 2, 2},
                                                                       {5, 1, 3, 2, 1, 2}}) {
    const std::int64_t positions = (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
    Operands k{empty({1, 2, size, size}),
               empty({3, 2, kernel, kernel}),
               empty({1, 3, positions, positions}),
               {.stride = {stride, stride},
                .padding = {padding, padding},
                .dilation = {dilation, dilation}}};
    CAPTURE(size);
    CAPTURE(kernel);
    CAPTURE(stride);
    REQUIRE(k.for_library());
    CHECK(k.problem().after == std::array<std::int64_t, 2>{after, after});
  }
  // An output that a library would not derive from the padding: rows that no kernel reaches.
  Operands k = operands();
  k.input = empty({2, 6, 12, 8});
  CHECK_FALSE(k.for_library());
}

TEST_CASE("a plan depends on its problem, and on the alignment of operands that are not copied") {
  const Operands k = operands();
  CHECK(k.problem() == k.problem());
  Operands other = k;
  other.params.stride = {2, 1};
  CHECK(other.problem() != k.problem());
  CHECK(operands(kFloat16).problem() != operands(kBFloat16).problem());

  const Tensor store = empty({2 * 6 * 9 * 8 + 1});
  other = k;
  other.input = store.narrow(0, 1, 2 * 6 * 9 * 8).view({2, 6, 9, 8});
  CHECK(k.problem().input.alignment == 16);
  CHECK(other.problem().input.alignment == 4);
  CHECK(other.problem() != k.problem());
  // A copy is aligned.
  other.input = store.narrow(0, 1, 2 * 6 * 9 * 8).view({2, 9, 8, 6}).permute({0, 3, 1, 2});
  CHECK(other.problem().layout == ConvLayout::channels_last);
  other.out = empty({2, 4, 7, 6});
  other.weight = empty({400, 6, 3, 3});
  other.out = empty({2, 400, 7, 6});
  CHECK(other.problem().layout == ConvLayout::channels_first);
  CHECK(other.problem().input.alignment == 16);
}
