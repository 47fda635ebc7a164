// The end of a residual block with layers on its shortcut, compared with the layers one by one.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/fused.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

struct Block : nn::Cloneable<Block> {
  explicit Block(const nn::BatchNormOptions& of_bn = {}, const nn::BatchNormOptions& of_second = {})
      : bn(3, of_bn) {
    downsample.push_back(nn::Conv2d(2, 3, 1));
    downsample.push_back(nn::BatchNorm2d(3, of_second));
    register_module("conv", conv);
    register_module("bn", bn);
    register_module("downsample", downsample);
  }
  nn::Conv2d conv{2, 3, 3, {.padding = 1}};
  nn::BatchNorm2d bn;
  nn::Sequential downsample;

  Tensor fused(const Tensor& x) {
    const nn::Shortcut shortcut(downsample, x);
    return nn::conv_bn_add_relu(conv, bn, x, shortcut);
  }
  Tensor apart(const Tensor& x) {
    const Tensor second = (*downsample.children()[1])((*downsample.children()[0])(x));
    return relu(bn(conv(x)) + second);
  }
};

/// Two steps of `block`, fused and layer by layer.
void check_alike(Block& block, MemoryFormat format = kChannelsLast) {
  block.to(kFloat64);
  block.zero_grad();
  const auto copy = block.clone();
  for (std::uint64_t step = 0; step < 2; ++step) {
    Generator generator(3 + step);
    const Tensor values = randn({2, 2, 4, 5}, {.dtype = kFloat64}, &generator).contiguous(format);
    const Tensor x = values.clone().set_requires_grad(), same = values.clone().set_requires_grad();
    const Tensor out = block.fused(x), expected = copy->apart(same);
    check_close(out, expected, 1e-13, 1e-14);
    if (!out.requires_grad()) continue;
    out.backward(out.detach() + 0.1);
    expected.backward(expected.detach() + 0.1);
    check_close(x.grad(), same.grad(), 1e-12, 1e-13);
  }
  const auto ours = block.parameters(), theirs = copy->parameters();
  for (std::size_t i = 0; i < ours.size(); ++i) {
    CAPTURE(i);
    REQUIRE(ours[i].grad().defined() == theirs[i].grad().defined());
    if (ours[i].grad().defined()) check_close(ours[i].grad(), theirs[i].grad(), 1e-12, 1e-13);
  }
  const auto buffers = block.buffers(), others = copy->buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) check_close(buffers[i], others[i], 1e-13, 1e-14);
}

/// Whether one op computes the end of the block.
bool is_one_op(Block& block) {
  const Tensor x = randn({2, 2, 4, 5}).to(block.conv.weight.dtype()).contiguous(kChannelsLast);
  return block.fused(x).grad_fn_name() == "batch_norm_shortcut";
}

nn::BatchNorm2d& second(Block& block) {
  return dynamic_cast<nn::BatchNorm2d&>(*block.downsample.children()[1]);
}

/// A batch in one part.
struct OnePart : BatchParts {
  Tensor gather(const Tensor& part) override { return part.unsqueeze(0).clone(); }
  void sum(const Tensor&) override {}
  bool alone() const override { return true; }
};

}  // namespace

TEST_CASE("a block's end with a shortcut is one op in training, and gives what its layers give") {
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    Block block;
    check_alike(block, format);
    CHECK(is_one_op(block));
    block.eval();
    check_alike(block, format);
    CHECK(!is_one_op(block));
  }
}

TEST_CASE("a shortcut with other norms") {
  const nn::BatchNormOptions options[] = {
      {},
      {.eps = 1e-2, .momentum = 0.4},
      {.momentum = std::nullopt},
      {.affine = false},
      {.track_running_stats = false},
      {.bias = false},
  };
  for (std::size_t i = 0; i < std::size(options); ++i)
    for (std::size_t k = 0; k < std::size(options); ++k)
      for (const bool training : {true, false}) {
        CAPTURE(i);
        CAPTURE(k);
        CAPTURE(training);
        Block block(options[i], options[k]);
        block.train(training);
        check_alike(block);
        // Only its layer can move running statistics that are means over all batches.
        if (training) CHECK(is_one_op(block) == (k != 2));
      }
}

TEST_CASE("a shortcut where one norm or the other is frozen, is an identity or has hooks") {
  using Change = std::function<void(Block&)>;
  const Change changes[] = {
      [](Block& b) { b.bn.eval(); },
      [](Block& b) { second(b).eval(); },
      [](Block& b) { b.bn.become_identity(); },
      [](Block& b) { second(b).become_identity(); },
      [](Block& b) { b.bn.set_batch_parts([] { return std::make_shared<OnePart>(); }); },
      [](Block& b) { second(b).set_batch_parts([] { return std::make_shared<OnePart>(); }); },
  };
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    CAPTURE(i);
    Block block;
    changes[i](block);
    check_alike(block);
    CHECK(!is_one_op(block));
  }
  for (const char* hooked : {"conv", "bn", "downsample.0", "downsample.1"}) {
    CAPTURE(hooked);
    Block block;
    block.to(kFloat64);
    const auto copy = block.clone();
    for (Block* const b : {&block, copy.get()})  // the hook changes the input of what follows
      b->get_submodule(hooked).register_forward_hook(
          [](nn::Module&, const Tensor&, const Tensor& out) { return out * 2 - 0.1; });
    const Tensor x = randn({2, 2, 4, 5}, {.dtype = kFloat64});
    check_close(block.fused(x), copy->apart(x), 1e-13, 1e-14);
    // The convolution's hook sees its output before the norms are fused.
    CHECK(is_one_op(block) == (std::string(hooked) == "conv"));
  }
  Block block;
  int calls = 0;
  block.downsample.register_forward_hook(
      [&](nn::Module&, const Tensor&, const Tensor& out) { return ++calls, out; });
  CHECK(!is_one_op(block));
  CHECK(calls == 1);
}

TEST_CASE("a shortcut with parameters that are not trained") {
  for (const char* fixed : {"conv", "bn", "downsample", "downsample.0", "downsample.1"}) {
    CAPTURE(fixed);
    Block block;
    block.get_submodule(fixed).requires_grad_(false);
    check_alike(block);
  }
}

TEST_CASE("a shortcut without layers, and of other layers") {
  Block block;
  block.to(kFloat64);
  const Tensor x = randn({2, 2, 4, 5}, {.dtype = kFloat64}),
               image = randn({2, 3, 4, 5}, {.dtype = kFloat64});
  nn::Sequential none;
  check_equal(conv_bn_add_relu(block.conv, block.bn, x, nn::Shortcut(none, image)),
              conv_bn_add_relu(block.conv, block.bn, x, image));
  nn::Sequential pooled(nn::Conv2d(2, 3, 1), nn::BatchNorm2d(3), nn::ReLU());
  pooled.to(kFloat64);
  const auto copy = pooled.clone();
  check_close(conv_bn_add_relu(block.conv, block.bn, x, nn::Shortcut(pooled, x)),
              conv_bn_add_relu(block.conv, block.bn, x, (*copy)(x)), 1e-13, 1e-14);
  check_equal(pooled.buffers()[0], copy->buffers()[0]);
}

TEST_CASE("a checkpointed block counts its batch once, whether its end is one op or not") {
  for (const std::optional<double> momentum : {std::optional(0.1), std::optional<double>()}) {
    Block block({}, {.momentum = momentum});
    block.to(kFloat64);
    const auto copy = block.clone();
    const Tensor x = randn({2, 2, 4, 5}, {.dtype = kFloat64}).set_requires_grad();
    const Tensor same = x.detach().clone().set_requires_grad();
    autograd::checkpoint([&](const Tensor& in) { return block.fused(in); }, x).sum().backward();
    copy->apart(same).sum().backward();
    check_close(x.grad(), same.grad(), 1e-12, 1e-13);
    for (std::size_t i = 0; i < block.buffers().size(); ++i)
      check_close(block.buffers()[i], copy->buffers()[i], 1e-13, 1e-14);
  }
}

TEST_CASE("residual networks fuse the norms where a block changes the size") {
  for (const nn::ResNetBlock kind : {nn::ResNetBlock::basic, nn::ResNetBlock::bottleneck}) {
    nn::ResNet net(kind, {1, 1, 1, 1}, {.classes = 3, .stem = nn::ResNetStem::small, .width = 2});
    const auto is_fused = [&](nn::Module& block) {
      return block(randn({2, 2 * (kind == nn::ResNetBlock::basic ? 1 : 4), 6, 6})).grad_fn_name() ==
             "batch_norm_shortcut";
    };
    CHECK(is_fused(*net.layer2.children()[0]));
    net.layer2.children()[0]->get_submodule("relu").register_forward_hook(
        [](nn::Module&, const Tensor&, const Tensor& out) { return out; });
    CHECK(!is_fused(*net.layer2.children()[0]));
  }
}

TEST_CASE("a norm that returns its input refuses to compute the one of a shortcut") {
  nn::BatchNorm2d norm(2), other(2);
  const Tensor x = randn({3, 2, 4, 4});
  norm.become_identity();
  CHECK_THROWS_WITH_AS(norm.forward(x, {.shortcut = other.as_shortcut(x, {})}),
                       doctest::Contains("residual"), ValueError);
}
