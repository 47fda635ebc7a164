// Networks for images against torchvision's (tests/golden/record_models.py makes the same weights
// and images): narrow ones by their outputs and gradients, the full ones by names and shapes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/init.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/models/classic.h"
#include "ferrite/nn/models/mobile.h"
#include "ferrite/nn/models/registry.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/nn/models/vision_transformer.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/nn/resnet_support.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"
#include "ferrite/tests/support/hash.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Made = std::unique_ptr<nn::Module>;

constexpr std::int64_t kClasses = 5;
const Shape kDeepInput = {2, 3, 64, 64};

template <class Net, class... Arguments>
std::function<Made()> maker(Arguments... arguments) {
  return [=] { return std::make_unique<Net>(arguments...); };
}

struct Case {
  const char* name;
  std::function<Made()> make;
  Shape input;
  /// Whether gradients are compared in float64 alone: behind a hundred norms over few values, those
  /// of the first layers are differences of large numbers, of which float32 leaves too little.
  bool float64_gradients = false;
};

const std::vector<Case>& cases() {
  using namespace nn;
  static const std::vector<Case> all = {
      {"vgg11",
       maker<VGG>(11, VGGOptions{.classes = kClasses, .dropout = 0, .width = 4, .hidden = 8}),
       {3, 3, 32, 32}},
      {"vgg13_bn",
       maker<VGG>(
           13,
           VGGOptions{
               .classes = kClasses, .batch_norm = true, .dropout = 0, .width = 2, .hidden = 6}),
       {3, 3, 32, 32}},
      {"alexnet",
       maker<AlexNet>(AlexNetOptions{.classes = kClasses, .dropout = 0, .width = 2, .hidden = 8}),
       {3, 3, 64, 63}},
      {"squeezenet1_1",
       maker<SqueezeNet>(SqueezeNetOptions{.classes = kClasses, .dropout = 0}),
       {3, 3, 33, 32}},
      {"mobilenet_v2",
       maker<MobileNetV2>(
           MobileNetV2Options{.classes = kClasses, .width_mult = 0.25, .dropout = 0}),
       {3, 3, 33, 32}},
      {"efficientnet_b0",
       maker<EfficientNet>(EfficientNetOptions{
           .classes = kClasses, .width_mult = 0.25, .dropout = 0, .stochastic_depth = 0}),
       {3, 3, 33, 32}},
      {"vit",
       maker<VisionTransformer>(VisionTransformerOptions{.classes = kClasses,
                                                         .image_size = 12,
                                                         .patch_size = 4,
                                                         .num_layers = 2,
                                                         .num_heads = 2,
                                                         .hidden_dim = 8,
                                                         .mlp_dim = 12}),
       {3, 3, 12, 12}},
      {"bottleneck",
       [] {
         return std::make_unique<Sequential>(Bottleneck(6, 16, 2, false, 4, 32),
                                             AdaptiveAvgPool2d(1), Flatten(), Linear(64, kClasses));
       },
       {3, 6, 7, 8}},
      {"resnet101", maker<ResNet101>(ResNetOptions{.classes = kClasses, .width = 2}), kDeepInput,
       true},
      {"resnet152", maker<ResNet152>(ResNetOptions{.classes = kClasses, .width = 2}), kDeepInput,
       true},
      {"resnext50_32x4d",
       [] { return std::make_unique<ResNet>(resnext50_32x4d({.classes = kClasses, .width = 16})); },
       kDeepInput},
      {"wide_resnet50_2",
       [] { return std::make_unique<ResNet>(wide_resnet50_2({.classes = kClasses, .width = 2})); },
       kDeepInput},
  };
  return all;
}

std::map<std::string, Tensor> sorted(const nn::Module& net) {
  std::map<std::string, Tensor> all;
  for (const auto& [name, t] : net.state_dict()) all.emplace(name, t);
  return all;
}

void fill_by_name(const nn::Module& net) {
  std::uint32_t i = 0;
  for (const auto& [name, t] : sorted(net)) {
    const std::uint32_t seed = i++;
    if (!is_floating(t.dtype())) continue;
    const std::int64_t fan = t.dim() > 1 ? t.numel() / t.size(0) : 100;
    set_uniform(t, seed, fan);
    if (name.ends_with("running_var") || (t.dim() == 1 && name.ends_with("weight")))
      no_grad([&, &tensor = t] { tensor.add_(1); });
  }
}

/// A network's state in torchvision, as tests/golden/record_models.py prints it.
struct Published {
  const char* name;
  std::int64_t parameters;
  std::uint64_t names, names_and_shapes;
};
constexpr Published kPublished[] = {
    {"resnet18", 11689512, 0x34ad421e3a9ac8c7, 0x6ea2f393dbdf6cf4},
    {"resnet34", 21797672, 0x621e18fe30c10faf, 0x8c4205da3490ade6},
    {"resnet50", 25557032, 0x6892479dc283dc5d, 0x3daba3a4e389aa02},
    {"resnet101", 44549160, 0x768da6f7c5badc02, 0xab7893c2f3cc6739},
    {"resnet152", 60192808, 0xc28c0b87fcf0e2fb, 0x91c9b7037239e1aa},
    {"resnext50_32x4d", 25028904, 0x6892479dc283dc5d, 0xb3d04542916c2383},
    {"resnext101_32x8d", 88791336, 0x768da6f7c5badc02, 0xd81edb923211cc6c},
    {"resnext101_64x4d", 83455272, 0x768da6f7c5badc02, 0x4fc7e1f17c0c7735},
    {"wide_resnet50_2", 68883240, 0x6892479dc283dc5d, 0x9a72d257bff94d12},
    {"wide_resnet101_2", 126886696, 0x768da6f7c5badc02, 0x82c61b981e30fdd9},
    {"alexnet", 61100840, 0xa5845f7f05c3c4b7, 0x8aef27c5a301d050},
    {"vgg11", 132863336, 0x597d1518062d4c2a, 0x288d104ae091ee95},
    {"vgg13", 133047848, 0xa9426fb0e00140be, 0x202f819ed780229c},
    {"vgg16", 138357544, 0x394ef049a4586c19, 0xc28928e39d007d16},
    {"vgg19", 143667240, 0x1c1361c34b47f9da, 0x36d33bf295df503e},
    {"vgg11_bn", 132868840, 0x4190013ad6127532, 0x4486d62ddfb009dd},
    {"vgg13_bn", 133053736, 0x4c3d9535be9aa163, 0x96fbeb1f579b3c91},
    {"vgg16_bn", 138365992, 0x0ddc2e8539bd1af1, 0xefaeff4895642f0e},
    {"vgg19_bn", 143678248, 0x3f4aa3895c4f2f7f, 0x9c7205a09df63499},
    {"squeezenet1_1", 1235496, 0xfdd87ccb8f4b0f09, 0xb3e214f6c5863cf2},
    {"mobilenet_v2", 3504872, 0x99a4f38c6a4af154, 0x16931603f99fc823},
    {"efficientnet_b0", 5288548, 0x413b6d92e6297a0e, 0x89850fff021588eb},
    {"vit_b_16", 86567656, 0xf5c4ea6170c56708, 0x6512e108ff558aa4},
    {"vit_b_32", 88224232, 0xf5c4ea6170c56708, 0x69638a7ed67faf8c},
};

/// FNV-1a of the names in the state, sorted, with or without their shapes.
std::uint64_t hash_of_state(const nn::Module& net, bool with_shapes) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const auto& [name, t] : sorted(net)) {
    std::string text = name;
    for (int d = 0; with_shapes && d < t.dim(); ++d)
      text += fmt::format("{}{}", d > 0 ? ", " : " [", t.size(d));
    if (with_shapes) text += t.dim() > 0 ? "]" : " []";
    for (const char c : text + "\n") hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001B3;
  }
  return hash;
}

}  // namespace

TEST_CASE("narrow networks agree with torchvision's, in training and evaluation") {
  const Golden golden("models");
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Made filled = c.make();
    filled->to(kFloat64);
    fill_by_name(*filled);
    for (const DType dtype : {kFloat64, kFloat32}) {
      CAPTURE(dtype);
      const double rtol = dtype == kFloat64 ? 1e-7 : 2e-2, atol = dtype == kFloat64 ? 1e-9 : 2e-3;
      const Made net = filled->clone();
      net->to(dtype);
      const Tensor x = hash_uniform(c.input, 1000, 1).to(dtype);
      const Tensor y = (*net)(x);
      check_close(y.detach().to(kFloat64), golden.get(c.name, "y"), rtol, atol);
      cross_entropy(y, labels(c.input[0], kClasses)).backward();
      if (dtype == kFloat64 || !c.float64_gradients) {
        std::map<std::string, double> norms;
        for (const auto& [name, p] : net->named_parameters())
          norms[name] = norm(p.grad().to(kFloat64)).item<double>();
        std::vector<double> got;
        for (const auto& [name, value] : norms) got.push_back(value);
        const Tensor expected = golden.get(c.name, "grads");
        check_close(from_vector(got, expected.shape()), expected, 10 * rtol, 10 * atol);
      }
      net->eval();
      const NoGradGuard guard;
      check_close((*net)(x).to(kFloat64), golden.get(c.name, "eval"), rtol, atol);
    }
  }
}

TEST_CASE("the full networks have torchvision's names, shapes and numbers of parameters") {
  const nn::init::SkipGuard skip;  // a second for each 100 million parameters
  for (const Published& full : kPublished) {
    CAPTURE(full.name);
    const Made net = nn::make_image_model(full.name);
    CHECK(net->num_parameters() == full.parameters);
    CHECK(hash_of_state(*net, true) == full.names_and_shapes);
  }
}

TEST_CASE("every network of the registry trains on small images, and has torchvision's names") {
  REQUIRE(nn::image_model_names().size() == std::size(kPublished));
  for (const Published& published : kPublished) {
    CAPTURE(published.name);
    const std::string_view name = published.name;
    const std::int64_t size = name == "alexnet" ? 64 : name.starts_with("vit") ? 28 : 32;
    const Made net = nn::make_image_model(published.name, {.classes = kClasses,
                                                           .in_channels = 1,
                                                           .image_size = size,
                                                           .small_images = true,
                                                           .width = 1 / 32.0});
    CHECK(hash_of_state(*net, false) == published.names);
    const Tensor x = hash_uniform({2, 1, size, size}, 1, 1);
    (*net)(x).sum().backward();
    for (const auto& [parameter, p] : net->named_parameters()) {
      CAPTURE(parameter);
      CHECK(p.grad().defined());
    }
    net->eval();
    const Made copy = net->clone();
    const NoGradGuard guard;
    check_equal((*copy)(x), (*net)(x));
    CHECK((*net)(x).shape() == Shape{2, kClasses});
  }
}

TEST_CASE("the activations of MobileNetV2 are the public layers") {
  const nn::MobileNetV2 net({.classes = 2, .width_mult = 0.25});
  CHECK(net.get<nn::ReLU6>("features.0.2").str() == "ReLU6()");
  CHECK(net.modules<nn::ReLU6>().size() == 35);
}

TEST_CASE("stochastic depth drops samples as a whole, in training only") {
  manual_seed(3);
  nn::StochasticDepth depth(0.25);
  const Tensor x = full({1000, 2, 3}, 1.0);
  const auto values = depth(x).to_vector<float>();
  int kept = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK((values[i] == 0 || values[i] == doctest::Approx(1 / 0.75)));
    if (i % 6 > 0) CHECK(values[i] == values[i - 1]);
    if (i % 6 == 0) kept += values[i] > 0;
  }
  CHECK(kept > 690);
  CHECK(kept < 810);
  CHECK(nn::StochasticDepth(1)(x).sum().item<double>() == 0);
  depth.eval();
  check_equal(depth(x), x);
}

TEST_CASE("networks refuse sizes that they cannot have") {
  CHECK_THROWS_AS(nn::VGG(12), ValueError);
  CHECK_THROWS_AS(nn::AlexNet({.classes = 0}), ValueError);
  CHECK_THROWS_AS(nn::SqueezeNet({.in_channels = 0}), ValueError);
  CHECK_THROWS_AS(nn::MobileNetV2({.width_mult = 0}), ValueError);
  CHECK_THROWS_AS(nn::EfficientNet({.depth_mult = -1}), ValueError);
  CHECK_THROWS_AS(nn::StochasticDepth(1.5), ValueError);
  CHECK_THROWS_AS(nn::VisionTransformer({.image_size = 30, .patch_size = 16}), ValueError);
  CHECK_THROWS_AS(nn::ResNet18({.groups = 2}), ValueError);
  CHECK_THROWS_AS(nn::ResNet50({.width_per_group = 0}), ValueError);
  nn::VisionTransformer vit({.image_size = 8,
                             .patch_size = 4,
                             .num_layers = 1,
                             .num_heads = 1,
                             .hidden_dim = 4,
                             .mlp_dim = 4});
  CHECK(contains(message_of<ShapeError>([&] {
                   vit(full({1, 3, 8, 9}, 0.0));
                 }),
                 "expected images [N, 3, 8, 8]"));
  CHECK(contains(message_of<ValueError>([] { nn::make_image_model("resnet1"); }),
                 "there is no network 'resnet1'; the closest is 'resnet18'"));
}
