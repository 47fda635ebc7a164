// Models made node by node: poolings, resizing and other nodes of images.
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/resize.h"
#include "ferrite/tests/onnx/model.h"
#include "ferrite/tests/support/message.h"

namespace ferrite::test {

namespace {

class Resized : public nn::Cloneable<Resized> {
 public:
  explicit Resized(const InterpolateOptions& options) : options_(options) {}
  Tensor forward(const Tensor& x) override { return interpolate(x, options_); }

 private:
  InterpolateOptions options_;
};

}  // namespace

TEST_CASE("Resize with pytorch_half_pixel takes the first element where one is left") {
  const auto resized = [](const char* place, const char* mode, const Tensor& to) {
    Model model;
    model.input("x", kFloat32);
    model.initializer("to", to);
    const bool factors = to.dtype() == kFloat32;
    auto& node = factors ? model.node("Resize", {"x", "", "to"}, "y")
                         : model.node("Resize", {"x", "", "", "to"}, "y");
    set_text(node, "mode", mode);
    set_text(node, "coordinate_transformation_mode", place);
    const Tensor x = arange(10, kFloat32).reshape({1, 1, 2, 5});
    return model.load({"y"})->run({x})[0].reshape({-1});
  };
  using List = std::vector<std::int64_t>;
  const auto values = [](const std::vector<float>& v) { return list(v); };
  const Tensor row = list(List{1, 1, 1, 3}), one = list<float>({1, 1, 0.6F, 0.25F});
  // From onnxruntime 1.32.
  const char* const place = "pytorch_half_pixel";
  CHECK(allclose(resized(place, "linear", row), values({1.F / 3, 2, 11.F / 3}), 1e-5));
  CHECK(allclose(resized(place, "cubic", row), values({0.259259F, 2, 3.740739F}), 1e-5));
  CHECK(allclose(resized("half_pixel", "linear", row), values({17.F / 6, 4.5, 37.F / 6}), 1e-5));
  for (const char* mode : {"linear", "cubic"}) CHECK(resized(place, mode, one).item<float>() == 0);
  CHECK(resized("half_pixel", "linear", one).item<float>() == doctest::Approx(3.1666665));
}

TEST_CASE("Resize rounds sizes as its float32 factors do, so that networks keep theirs") {
  const TempDir dir;
  const NoGradGuard no_grad;
  using enum InterpolateMode;
  for (const double factor : {1.7, 1.3, 1.1, 2.3, 1.9, 0.7, 0.3, 1.2, 2.6})
    for (const InterpolateMode mode : {nearest, nearest_exact, linear}) {
      CAPTURE(factor);
      CAPTURE(static_cast<int>(mode));
      Resized net({.scale_factor = factor, .mode = mode});
      for (std::int64_t n = 5; n <= 30; ++n) {
        CAPTURE(n);
        const Tensor x = arange(n, kFloat32).reshape({1, 1, n});
        onnx::save(net, x, dir / "net.onnx");
        const Tensor expected = net(x), got = onnx::load(dir / "net.onnx")->run({x})[0];
        REQUIRE(got.shape() == expected.shape());
        CHECK(equal(got, expected));
      }
    }
  // No short decimal number rounds to this factor; in float32, 49 times it is 1.
  Model model;
  model.input("x", kFloat32);
  model.initializer("to", list<float>({1, 1, 1.F / 49}));
  auto& node = model.node("Resize", {"x", "", "to"}, "y");
  set_text(node, "mode", "linear");
  CHECK(model.load({"y"})->run({ones({1, 1, 49}, kFloat32)})[0].shape() == Shape{1, 1, 1});
}

TEST_CASE("Resize takes attributes that have their default values, and refuses other ones") {
  const auto resized = [](const char* name, std::optional<std::int64_t> integer, const char* text) {
    Model model;
    model.input("x", kFloat32);
    model.initializer("to", list<float>({1, 1, 2}));
    auto& node = model.node("Resize", {"x", "", "to"}, "y");
    set_text(node, "mode", "linear");
    if (integer)
      set_integer(node, name, *integer);
    else
      set_text(node, name, text);
    set_number(node, "extrapolation_value", 0);
    const auto network = model.load({"y"});
    return message_of<ValueError>([&] { network->run({ones({1, 1, 4}, kFloat32)}); });
  };
  CHECK(resized("antialias", 0, "") == "no exception");
  CHECK(resized("exclude_outside", 0, "") == "no exception");
  CHECK(resized("keep_aspect_ratio_policy", {}, "stretch") == "no exception");
  CHECK(contains(resized("antialias", 1, ""), "antialias is not read"));
  CHECK(contains(resized("keep_aspect_ratio_policy", {}, "not_larger"),
                 "keep_aspect_ratio_policy is not_larger"));
}

TEST_CASE("MaxPool with ceil_mode and unequal pads has no window that begins in the padding") {
  const auto pooled = [](const std::vector<std::int64_t>& kernel_stride_pads, std::int64_t size) {
    Model model;
    model.input("x", kFloat32);
    auto& node = model.node("MaxPool", {"x"}, "y");
    set_integer(node, "ceil_mode", 1);
    set_integers(node, "kernel_shape", {kernel_stride_pads[0]});
    set_integers(node, "strides", {kernel_stride_pads[1]});
    set_integers(node, "pads", {kernel_stride_pads[2], kernel_stride_pads[3]});
    return model.load({"y"})
        ->run({arange(size, kFloat32).reshape({1, 1, size})})[0]
        .to_vector<float>();
  };
  using List = std::vector<float>;
  // From onnxruntime 1.32.
  CHECK(pooled({2, 2, 0, 1}, 4) == List{1, 3});
  CHECK(pooled({2, 2, 0, 1}, 5) == List{1, 3, 4});
  CHECK(pooled({3, 2, 0, 1}, 6) == List{2, 4, 5});
  CHECK(pooled({3, 2, 1, 0}, 6) == List{1, 3, 5});
  CHECK(pooled({3, 3, 0, 1}, 7) == List{2, 5, 6});
  CHECK(pooled({2, 3, 1, 0}, 4) == List{0, 3});
  // Of more padding than half the kernel.
  CHECK(pooled({3, 2, 2, 2}, 4) == List{0, 2, 3});
}

TEST_CASE("DepthToSpace of both modes") {
  const auto moved = [](const char* mode) {
    Model model;
    model.input("x", kFloat32);
    auto& node = model.node("DepthToSpace", {"x"}, "y");
    set_integer(node, "blocksize", 2);
    set_text(node, "mode", mode);
    return model.load({"y"})
        ->run({arange(8, kFloat32).reshape({1, 8, 1, 1})})[0]
        .to_vector<float>();
  };
  CHECK(moved("CRD") == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(moved("DCR") == std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7});
}

TEST_CASE("LRN of an even size is refused") {
  Model model;
  model.input("x", kFloat32);
  set_integer(model.node("LRN", {"x"}, "y"), "size", 4);
  const auto network = model.load({"y"});
  CHECK(contains(message_of<ValueError>([&] {
                   network->run({ones({1, 8, 2, 2}, kFloat32)});
                 }),
                 "its size is 4; windows of an even size are not read"));
}

}  // namespace ferrite::test
