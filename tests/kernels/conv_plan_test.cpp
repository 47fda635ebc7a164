// Which engine the CPU's plans take for known shapes, and that all engines of a plan agree.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ferrite/kernels/cpu/conv/plan.h"
#include "ferrite/kernels/cpu/conv/product.h"
#include "ferrite/kernels/cpu/pack.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using kernels::ConvAlgorithm;
using kernels::ConvParams;
using kernels::ConvPass;
using kernels::View;
using kernels::cpu::ConvCall;
using kernels::cpu::ConvMethod;
using kernels::cpu::ConvPlan;
using Method = ConvMethod;

namespace {

constexpr std::array kPasses{ConvPass::forward, ConvPass::data, ConvPass::weight};

struct Layer {
  std::int64_t images, in, size, out, kernel, stride = 1, padding = 0, groups = 1;
  DType dtype = kFloat32;
  MemoryFormat format = kChannelsLast;
  kernels::Activation activation = kernels::Activation::none;
};

/// The operands of a layer, with values, and the calls of its passes.
struct Operands {
  explicit Operands(const Layer& l)
      : params{.stride = {l.stride, l.stride},
               .padding = {l.padding, l.padding},
               .groups = l.groups,
               .activation = l.activation} {
    const std::int64_t size = (l.size + 2 * l.padding - l.kernel) / l.stride + 1;
    input = values({l.images, l.in, l.size, l.size}, l);
    weight = values({l.out, l.in / l.groups, l.kernel, l.kernel}, l);
    out = values({l.images, l.out, size, size}, l);
    bias = values({l.out}, l), bias_of_data = values({l.in}, l);
  }
  static Tensor values(const Shape& shape, const Layer& l) {
    return randn(shape).to(l.dtype).contiguous(shape.size() == 4 ? l.format : kContiguous);
  }
  ConvCall call(ConvPass pass) const {
    return {pass, input, weight, out, pass == ConvPass::data ? bias_of_data : bias, params};
  }

  ConvParams params;
  Tensor input, weight, out, bias, bias_of_data;
};

ConvPlan plan_of(const Layer& l, ConvPass pass) {
  const Operands operands(l);
  return kernels::cpu::plan_of(operands.call(pass));
}
std::vector<Method> methods_of(const Layer& l) {
  std::vector<Method> methods;
  for (const ConvPass pass : kPasses) methods.push_back(plan_of(l, pass).method);
  return methods;
}
bool offers(const ConvPlan& plan, Method method) {
  return std::any_of(plan.candidates.begin(), plan.candidates.end(),
                     [&](const auto& c) { return c.method == method; });
}

struct Algorithm {
  explicit Algorithm(ConvAlgorithm algorithm) { kernels::set_conv_algorithm(algorithm); }
  ~Algorithm() { kernels::set_conv_algorithm(before); }
  ConvAlgorithm before = kernels::conv_algorithm();
};

/// What a call computes.
std::vector<Tensor> results(const Layer& l, const Operands& from, ConvPass pass, Method method) {
  Operands o = from;
  Tensor& result = pass == ConvPass::forward ? o.out : pass == ConvPass::data ? o.input : o.weight;
  result = zeros_like(result);
  if (pass == ConvPass::weight) o.bias = zeros_like(o.bias);
  dispatch_floating(l.dtype, "test",
                    [&]<class S>() { kernels::cpu::run_conv<S>(o.call(pass), method); });
  if (pass == ConvPass::weight) return {result, o.bias};
  return {result};
}

void check_agreement(const Layer& l) {
  const Operands operands(l);
  for (const ConvPass pass : kPasses) {
    const ConvCall call = operands.call(pass);
    ConvPlan plan = kernels::cpu::plan_of(call);
    const std::string text = kernels::cpu::to_string(call, plan);
    CAPTURE(text);
    plan.candidates.push_back({Method::sparse, 0});  // it can compute all
    if (kernels::cpu::is_product(call)) plan.candidates.push_back({Method::product, 0});
    const bool half = itemsize(l.dtype) == 2;
    const auto expected = results(l, operands, pass, half ? Method::float_copies : Method::direct);
    const double terms = static_cast<double>(pass == ConvPass::weight ? operands.out.numel() / l.out
                                             : pass == ConvPass::data
                                                 ? operands.weight.numel() / operands.weight.size(1)
                                                 : operands.weight.numel() / l.out);
    for (const auto& candidate : plan.candidates) {
      CAPTURE(static_cast<int>(candidate.method));
      const auto actual = results(l, operands, pass, candidate.method);
      for (std::size_t i = 0; i < actual.size(); ++i)
        test::check_close(actual[i], expected[i], test::rounding_of(l.dtype) * (half ? 4 : 1),
                          (l.dtype == kFloat64 ? 1e-14 : 5e-6) * std::max(8.0, terms));
    }
  }
}

}  // namespace

TEST_CASE("plans take the engine that known shapes need, at every instruction set") {
  using Methods = std::vector<Method>;
  constexpr Method direct = Method::direct, four = Method::winograd_4x4;
  CHECK(methods_of({8, 64, 28, 64, 3, 1, 1}) == Methods{four, four, four});
  CHECK(methods_of({8, 256, 14, 256, 3, 1, 1}) == Methods{four, four, four});
  CHECK(methods_of({8, 64, 28, 128, 3, 2, 1}) == Methods{direct, direct, direct});
  // LeNet-5's layers: images plane by plane, and few channels for the gradient by the input.
  const Layer first{64, 1, 28, 6, 5, 1, 2, 1, kFloat32, kContiguous};
  CHECK(plan_of(first, ConvPass::forward).method == Method::planes);
  CHECK(plan_of(first, ConvPass::weight).method == Method::planes);
  CHECK(plan_of({64, 6, 14, 16, 5}, ConvPass::data).method == Method::columns);
  CHECK(plan_of({64, 6, 14, 16, 5}, ConvPass::forward).method == direct);
  // 5 x 5 taps. The sums of 20 channels are too short: they would round too much.
  constexpr Method two = Method::winograd_2x2;
  CHECK(methods_of({64, 64, 27, 192, 5, 1, 2}) == Methods{two, two, two});
  CHECK(methods_of({64, 20, 13, 50, 5}) == Methods{direct, Method::columns, two});
  // Many sums of few pixels.
  CHECK(plan_of({8, 512, 7, 512, 1}, ConvPass::weight).method == Method::weight_blocks);
  CHECK(plan_of({8, 64, 56, 64, 1}, ConvPass::weight).method == direct);
  // Winograd's algorithm has nothing for steps, other taps, few channels and no image.
  CHECK(plan_of({32, 64, 16, 64, 4, 1, 1}, ConvPass::weight).method == direct);
  CHECK(plan_of({32, 1, 16, 20, 3, 1, 1}, ConvPass::weight).method == direct);
  CHECK(plan_of({0, 64, 16, 64, 3, 1, 1}, ConvPass::weight).method == direct);
}

TEST_CASE("plans of depthwise convolutions") {
  const Layer last{4, 32, 28, 32, 3, 1, 1, 32};
  CHECK(methods_of(last) == std::vector(3, Method::depthwise));
  for (const DType dtype : {kFloat64, kFloat16, kBFloat16}) {
    Layer l = last;
    l.dtype = dtype;
    CHECK(methods_of(l) == std::vector(3, Method::depthwise));
  }
  Layer planes = last;
  planes.format = kContiguous;
  CHECK(methods_of(planes) == std::vector(3, Method::planes));
  // Of a few pixels each plane would be a call.
  Layer small = planes;
  small.size = 8;
  CHECK(methods_of(small) == std::vector(3, Method::pixel_copies));
}

TEST_CASE("depthwise convolutions of one image in NHWC and one in NCHW copy the latter") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16})
    for (const std::int64_t stride : {1, 2}) {
      Layer l{4, 37, 14, 37, 3, stride, 1, 37};
      l.dtype = dtype;
      for (const ConvPass pass : kPasses) {
        const Operands pixels(l);
        Operands mixed = pixels;
        (pass == ConvPass::data ? mixed.input : mixed.out) =
            (pass == ConvPass::data ? pixels.input : pixels.out).contiguous();
        CHECK(kernels::cpu::plan_of(mixed.call(pass)).method == Method::pixel_copies);
        const auto result = [pass](const Operands& o) {
          kernels::cpu::run_conv(o.call(pass));
          return pass == ConvPass::forward ? o.out : pass == ConvPass::data ? o.input : o.weight;
        };
        const Tensor expected = result(pixels).clone();
        test::check_equal(result(mixed), expected);
      }
    }
}

TEST_CASE("plans visit taps one by one where hardly any meets the image") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16})
    for (const MemoryFormat format : {kContiguous, kChannelsLast})
      for (const std::int64_t groups : {1, 2, 16}) {
        const Layer l{1, 16, 5, 16, 1, 60000, 60000, groups, dtype, format};
        CHECK(methods_of(l) == std::vector(3, Method::sparse));
      }
  // Wide paddings whose pixels are all read.
  for (const Layer& l : {Layer{1, 2, 5, 2, 1, 1, 150}, Layer{1, 2, 5, 2, 200, 1, 199}})
    for (const ConvPass pass : kPasses) CHECK(plan_of(l, pass).method != Method::sparse);
}

TEST_CASE("scratch memory refuses sizes that overflow") {
  using Scratch = kernels::cpu::Scratch<float>;
  for (const std::int64_t count : {std::int64_t{1} << 62, INT64_MAX, std::int64_t{-4}})
    CHECK_THROWS_AS(Scratch{count}, OutOfMemoryError);
}

TEST_CASE("plans of 16-bit types convert once") {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Layer l{8, 64, 28, 64, 3, 1, 1, 1, dtype};
    for (const ConvPass pass : kPasses) CHECK(plan_of(l, pass).method == Method::float_copies);
  }
}

TEST_CASE("plans sum bfloat16 by pairs where the machine is faster so") {
  const Layer l{7, 64, 28, 128, 3, 2, 1, 1, kBFloat16};
  const bool fast = offers(plan_of(l, ConvPass::forward), Method::pairs);
  CHECK(methods_of(l) == std::vector(3, fast ? Method::pairs : Method::float_copies));
  Layer planes = l;
  planes.format = kContiguous;
  CHECK(methods_of(planes) == std::vector(3, fast ? Method::pixel_copies : Method::float_copies));
  planes.dtype = kFloat16;
  CHECK(methods_of(planes) == std::vector(3, Method::float_copies));
  Layer odd = l;  // half a pair is left over
  odd.in = 63;
  CHECK_FALSE(offers(plan_of(odd, ConvPass::forward), Method::pairs));
  const Algorithm use(ConvAlgorithm::winograd_2x2);
  CHECK_FALSE(offers(plan_of(l, ConvPass::forward), Method::pairs));
}

TEST_CASE("plans follow conv_algorithm()") {
  const Layer wide{8, 64, 28, 64, 3, 1, 1}, few{8, 16, 28, 16, 3, 1, 1}, one{8, 1, 28, 20, 3};
  CHECK_FALSE(offers(plan_of(few, ConvPass::forward), Method::winograd_4x4));  // rounds too much
  CHECK(offers(plan_of(wide, ConvPass::forward), Method::winograd_2x2));
  {
    const Algorithm use(ConvAlgorithm::direct);
    CHECK(methods_of(wide) == std::vector(3, Method::direct));
  }
  for (const auto& [algorithm, method] :
       {std::pair{ConvAlgorithm::winograd_2x2, Method::winograd_2x2},
        std::pair{ConvAlgorithm::winograd_4x4, Method::winograd_4x4}}) {
    const Algorithm use(algorithm);
    for (const Layer& l : {wide, few, one}) CHECK(methods_of(l) == std::vector(3, method));
    CHECK(plan_of({8, 64, 28, 64, 3, 2, 1}, ConvPass::forward).method == Method::direct);
    CHECK(plan_of({8, 64, 28, 64, 5, 1, 2}, ConvPass::forward).method ==
          (method == Method::winograd_2x2 ? method : Method::direct));
  }
}

TEST_CASE("plans of what an image becomes do not depend on the batch") {
  for (const MemoryFormat format : {kContiguous, kChannelsLast})
    for (Layer l :
         {Layer{1, 64, 7, 128, 3, 1, 1}, Layer{1, 16, 28, 24, 3, 1, 1},
          Layer{1, 3, 32, 10, 5, 1, 2}, Layer{1, 8, 9, 8, 3, 2, 1, 8}, Layer{1, 20, 13, 50, 5}})
      for (const ConvPass pass : {ConvPass::forward, ConvPass::data}) {
        l.format = format;
        l.images = 1;
        const ConvPlan alone = plan_of(l, pass);
        l.images = 37;
        const ConvPlan together = plan_of(l, pass);
        CHECK(alone.method == together.method);
        for (std::size_t i = 0; i < alone.candidates.size(); ++i)
          CHECK(alone.candidates[i].cost == together.candidates[i].cost);
      }
}

TEST_CASE("plans as text") {
  const Operands o({8, 64, 28, 64, 3, 1, 1});
  const std::string text =
      kernels::conv_plan(ConvPass::forward, o.input, o.weight, o.out, o.params);
  CHECK(
      text.starts_with("conv2d forward float32 [8, 64, 28, 28] * [64, 64, 3, 3] -> "
                       "[8, 64, 28, 28]: winograd_4x4 (direct "));
  CHECK(text.find(", winograd_2x2 ") != std::string::npos);
}

TEST_CASE("one tap with a stride has the plan of the pixels that it reads") {
  const auto text_of = [](ConvPass pass, const Layer& l) {
    const Operands o(l);
    return kernels::conv_plan(pass, o.input, o.weight, o.out, o.params);
  };
  for (const ConvPass pass : {ConvPass::forward, ConvPass::weight}) {
    CHECK(text_of(pass, {8, 64, 27, 128, 1, 2}).find(" [8, 64, 14, 14] * ") != std::string::npos);
    CHECK(text_of(pass, {8, 64, 27, 128, 1, 2}) == text_of(pass, {8, 64, 14, 128, 1}));
  }
  CHECK(text_of(ConvPass::data, {8, 64, 27, 128, 1, 2}).find(" [8, 64, 27, 27] ") !=
        std::string::npos);
  // Padding is read, too; engines of 16-bit types want dense images.
  CHECK(text_of(ConvPass::forward, {8, 64, 27, 128, 1, 2, 1}).find(" [8, 64, 27, 27] ") !=
        std::string::npos);
  CHECK(text_of(ConvPass::forward, {8, 64, 27, 128, 1, 2, 0, 1, kBFloat16})
            .find(" [8, 64, 27, 27] ") != std::string::npos);
}

TEST_CASE("all engines of a plan agree") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16})
    for (const MemoryFormat format : {kContiguous, kChannelsLast})
      for (Layer l :
           {Layer{3, 64, 9, 70, 3, 1, 1}, Layer{5, 6, 14, 16, 5}, Layer{2, 1, 28, 6, 5, 1, 2},
            Layer{3, 12, 11, 12, 3, 2, 1, 12}, Layer{4, 40, 7, 96, 1},
            Layer{2, 10, 8, 14, 3, 1, 1, 2}, Layer{3, 256, 3, 160, 1},
            Layer{5, 12, 9, 20, 3, 2, 1, 2}, Layer{1, 34, 6, 18, 1, 2}, Layer{8, 32, 13, 50, 5},
            Layer{12, 21, 8, 20, 5, 1, 2}}) {
        l.dtype = dtype;
        l.format = format;
        l.activation = kernels::Activation::relu;
        check_agreement(l);
      }
}
