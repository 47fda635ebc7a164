#include "ferrite/nn/summary.h"

#include <doctest/doctest.h>

#include <optional>
#include <sstream>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;

namespace {

/// Changes all state that a summary must restore, and calls one child twice.
class Restless : public nn::Cloneable<Restless> {
 public:
  Restless() : weight(ones({3, 3})), count(zeros({})) {
    register_parameter("weight", weight);
    register_buffer("count", count);
    register_module("fc", fc);
    register_module("unused", unused);
  }
  Tensor forward(const Tensor& x) override {
    CHECK(!is_training());
    CHECK(!grad_enabled());
    count.add_(1);
    const Tensor y = matmul(dropout(x, 0.5, /*training=*/true), weight);
    if (fails) throw ValueError("[test] no");
    return fc(fc(y));
  }

  Tensor weight, count;
  nn::Linear fc{3, 3};
  nn::BatchNorm1d unused{3};
  bool fails = false;
};

class TwoInputs : public nn::Cloneable<TwoInputs> {
 public:
  TwoInputs() : Cloneable() { register_module("fc", fc); }
  using Module::forward;
  std::pair<Tensor, Tensor> forward(const Tensor& a, const Tensor& b) { return {fc(a), fc(b)}; }
  nn::Linear fc{4, 2};
};

const nn::SummaryRow& row(const nn::Summary& s, const std::string& path) {
  for (const nn::SummaryRow& r : s.rows)
    if (r.path == path) return r;
  FAIL("no row ", path);
  return s.rows[0];
}

}  // namespace

TEST_CASE("LeNet-5, counted by hand") {
  nn::LeNet5 net;
  const nn::Summary s = nn::summary(net, {1, 1, 28, 28});
  CHECK(s.rows.size() == 6);
  CHECK(s.rows[0].path.empty());
  CHECK(s.rows[0].type == "LeNet5");
  CHECK(s.rows[0].output_shapes == std::vector<Shape>{{1, 10}});
  CHECK(row(s, "conv1").output_shapes == std::vector<Shape>{{1, 6, 28, 28}});
  CHECK(row(s, "conv1").parameters == 156);
  CHECK(row(s, "conv1").multiply_adds == 28 * 28 * 6 * 25);
  CHECK(row(s, "conv2").multiply_adds == 10 * 10 * 16 * 150);
  CHECK(row(s, "fc1").multiply_adds == 400 * 120);
  CHECK(s.multiply_adds == 117'600 + 240'000 + 48'000 + 10'080 + 840);
  CHECK(s.rows[0].multiply_adds == s.multiply_adds);
  CHECK(s.multiply_adds_known);
  CHECK(s.parameters == 61'706);
  CHECK(s.trainable == 61'706);
  CHECK(s.input_bytes == 4 * 784);
  CHECK(s.parameter_bytes == 4 * 61'706);
  CHECK(s.activation_bytes == 2 * 4 * (6 * 784 + 16 * 100 + 120 + 84 + 10));
  CHECK(!net.get_submodule("conv1").has_hooks());
  CHECK(net.is_training());

  // As one op of weights of its own, and a batch of 3.
  nn::D2LLeNet d2l;
  CHECK(nn::summary(d2l, {3, 1, 28, 28}).multiply_adds ==
        3 * (26 * 26 * 180 + 9 * 9 * 25'000 + 800 * 128 + 1280));
}

TEST_CASE("residual networks have their published figures") {
  // At 32 x 32 each convolution has a 49th of the positions that it has at 224 x 224.
  const auto check = [](nn::Module& net, std::int64_t parameters, std::int64_t products,
                        std::int64_t fc, std::int64_t activations) {
    const nn::Summary s = nn::summary(net, {1, 3, 32, 32});
    CHECK(s.parameters == parameters);
    CHECK(s.parameter_bytes == 4 * parameters);
    CHECK((s.multiply_adds - fc) * 49 + fc == products);
    CHECK((s.activation_bytes / 8 - 1000) * 49 + 1000 == activations);
    CHECK(s.rows[0].parameters == parameters);
    for (const nn::SummaryRow& r : s.rows)  // a block calls its ReLU after each norm
      CHECK((r.calls == 1 || (r.type == "ReLU" && r.calls <= 3)));
  };
  nn::ResNet18 net18;
  check(net18, 11'689'512, 1'814'073'344, 512'000, 4'968'424);  // 1.81 G, 39.75 MB
  nn::ResNet50 net50;
  check(net50, 25'557'032, 4'089'184'256, 2'048'000, 22'228'968);  // 4.09 G, 177.83 MB
}

TEST_CASE("other products, inputs of several types, and layers with unknown costs") {
  nn::ConvTranspose2d transposed(4, 6, 3, {.stride = 2, .groups = 2});
  CHECK(nn::summary(transposed, {2, 4, 5, 5}).multiply_adds == 2 * 4 * 25 * (6 / 2 * 9));
  nn::Conv2d grouped(4, 6, 3, {.groups = 2});
  CHECK(nn::summary(grouped, {1, 4, 5, 5}).multiply_adds == 9 * 6 * 2 * 9);

  nn::Sequential words(nn::Embedding(10, 4), nn::LayerNorm({4}), nn::Linear(4, 2));
  words.to(kFloat16);
  const nn::Summary s = nn::summary(words, tensor({{1, 2, 3}}));
  CHECK(s.multiply_adds == 3 * 4 * 2);
  CHECK(s.input_bytes == 3 * 8);
  CHECK(s.parameter_bytes == 2 * (40 + 8 + 10));
  CHECK(nn::summary(words, Shape{2}, {.dtype = kInt64}).rows[3].output_shapes[0] == Shape{2, 2});

  TwoInputs two;
  const nn::Summary of_two = nn::summary(two, [&] { two(ones({1, 4}), ones({3, 4})); });
  CHECK(of_two.rows[0].output_shapes == std::vector<Shape>{{1, 2}, {3, 2}});
  CHECK(of_two.rows[1].calls == 2);
  CHECK(of_two.multiply_adds == 4 * 8);
  CHECK(of_two.input_bytes == 4 * 16);

  Restless unknown;
  const nn::Summary u = nn::summary(unknown, {2, 3});
  CHECK(!u.multiply_adds_known);
  CHECK(u.multiply_adds == 2 * 18);
  CHECK(!u.rows[0].own_multiply_adds);
  CHECK(row(u, "unused").calls == 0);
  CHECK(row(u, "unused").output_shapes.empty());
}

TEST_CASE("a summary restores all state") {
  manual_seed(3);
  Restless net;
  net.unused.eval();
  int hooked = 0;
  net.fc.register_forward_hook([&](nn::Module&, const Tensor&, const Tensor&) { ++hooked; });
  const PhiloxState random = default_generator({}).state();
  for (const bool fails : {false, true}) {
    net.fails = fails;
    if (fails)
      CHECK_THROWS_AS(nn::summary(net, {2, 3}), ValueError);
    else
      nn::summary(net, {2, 3});
    CHECK(net.is_training());
    CHECK(net.fc.is_training());
    CHECK(!net.unused.is_training());
    CHECK(net.count.item<float>() == 0);
    CHECK(default_generator({}).state().offset == random.offset);
    CHECK(!net.has_hooks());
    CHECK(net.fc.has_hooks());
    CHECK(grad_enabled());
    CHECK(net.weight.requires_grad());
  }
  CHECK(hooked == 2);
}

TEST_CASE("the table") {
  nn::Sequential net(
      nn::Sequential(nn::Conv2d(3, 8, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(8)),
      nn::ReLU(), nn::Flatten(), nn::Linear(8 * 6 * 6, 1000));
  net.requires_grad_(false, "0.0,3.bias");
  std::ostringstream out;
  out << nn::summary(net, {2, 3, 6, 6});
  CHECK(out.str() == R"(Layer (type)          Output shape  Parameters  Trainable  Multiply-adds
------------------------------------------------------------------------
Sequential            [2, 1000]             --  partly                --
├─0 (Sequential)      [2, 8, 6, 6]          --  partly                --
│  ├─0 (Conv2d)       [2, 8, 6, 6]         216  no                15,552
│  └─1 (BatchNorm2d)  [2, 8, 6, 6]          16  yes                   --
├─1 (ReLU)            [2, 8, 6, 6]          --  --                    --
├─2 (Flatten)         [2, 288]              --  --                    --
└─3 (Linear)          [2, 1000]        289,000  partly           576,000
------------------------------------------------------------------------
Parameters: 289,232, 288,016 of them trainable, 1,216 frozen
Multiply-adds: 591.55 k
Memory: input 0.00 MB, activations forward and backward 0.03 MB, parameters 1.16 MB, in all 1.18 MB)");

  out.str("");
  out << nn::summary(net, {2, 3, 6, 6}, {.depth = 1});
  CHECK(out.str().find("├─0 (Sequential)  [2, 8, 6, 6]         232  partly            15,552") !=
        std::string::npos);
  CHECK(out.str().find("Conv2d") == std::string::npos);
  Restless unknown;
  const std::string text = nn::summary(unknown, {2, 3}).str();
  CHECK(text.find("├─fc (Linear) x2") != std::string::npos);
  CHECK(text.find(", without the layers marked ?") != std::string::npos);
  CHECK(text.find("└─unused (BatchNorm1d)  --") != std::string::npos);
}
