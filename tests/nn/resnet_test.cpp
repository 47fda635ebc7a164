// Residual networks: against PyTorch (tests/golden/record_resnet.py makes the same weights and
// images), and against the composition of the layers' plain operations.
#include "ferrite/nn/models/resnet.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/allocator.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/nn/resnet_support.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"
#include "ferrite/tests/support/hash.h"

using namespace ferrite;
using namespace ferrite::test;
using nn::ResNetBlock;
using nn::ResNetStem;

namespace {

const Golden& golden() {
  static const Golden g("resnet");
  return g;
}

/// At most `count` elements, evenly spaced.
std::vector<double> sample(const Tensor& t, std::int64_t count = 24) {
  const auto all = t.to_vector<double>();
  std::vector<double> some;
  const auto stride =
      static_cast<std::size_t>(std::max<std::int64_t>(1, (t.numel() + count - 1) / count));
  for (std::size_t i = 0; i < all.size(); i += stride) some.push_back(all[i]);
  return some;
}

struct Case {
  std::string name;
  ResNetBlock block;
  std::array<std::int64_t, 4> blocks;
  nn::ResNetOptions options;
  Shape input;
};

const Case kCases[] = {
    {"basic", ResNetBlock::basic, {2, 2, 2, 2}, {.classes = 5, .width = 4}, {4, 3, 33, 32}},
    {"small",
     ResNetBlock::basic,
     {1, 2, 1, 1},
     {.classes = 7, .in_channels = 1, .stem = ResNetStem::small, .width = 3},
     {3, 1, 14, 14}},
    {"bottleneck",
     ResNetBlock::bottleneck,
     {1, 2, 1, 1},
     {.classes = 6, .stem = ResNetStem::small, .width = 2},
     {3, 3, 9, 8}},
};

/// Checks a training step and an evaluation against the recorded ones.
void check_against_pytorch(const Case& c, DType dtype, MemoryFormat format, double rtol,
                           double atol) {
  CAPTURE(c.name);
  CAPTURE(dtype);
  CAPTURE(static_cast<int>(format));
  nn::ResNet net(c.block, c.blocks, c.options);
  net.to(kFloat64);
  fill(net);
  net.to(dtype).to(format);
  const Tensor x = hash_uniform(c.input, 1000, 1).to(dtype).contiguous(format);
  x.set_requires_grad();
  const Tensor y = net(x);
  check_close(y, golden().get(c.name, "y"), rtol, atol);
  const Tensor loss = cross_entropy(y, labels(c.input[0], c.options.classes));
  check_close(loss, golden().get(c.name, "loss"), rtol, atol);
  loss.backward();
  check_close(from_vector(sample(x.grad(), 200), golden().get(c.name, "dx").shape()),
              golden().get(c.name, "dx"), 10 * rtol, atol);
  for (const auto& [name, p] : net.named_parameters()) {
    CAPTURE(name);
    REQUIRE(p.grad().defined());
    std::vector<double> got = sample(p.grad());
    got.push_back(norm(p.grad().to(kFloat64)).item<double>());
    const Tensor expected = golden().get(c.name, "grad." + name);
    check_close(from_vector(got, expected.shape()), expected, 10 * rtol, atol);
  }
  for (const auto& [name, b] : net.named_buffers()) {
    CAPTURE(name);
    if (is_floating(b.dtype()))
      check_close(golden().get(c.name, "after." + name), sample(b), rtol, atol);
    else
      CHECK(b.item<std::int64_t>() == 1);
  }
  net.eval();
  NoGradGuard guard;
  check_close(net(x), golden().get(c.name, "eval"), rtol, atol);
}

}  // namespace

TEST_CASE("a step of narrow residual networks agrees with PyTorch") {
  for (const Case& c : kCases)
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      check_against_pytorch(c, kFloat64, format, 1e-9, 1e-10);
      // Gradients are of the order of 0.01 to 1 and differences of large sums.
      check_against_pytorch(c, kFloat32, format, 1e-4, 2e-5);
    }
}

TEST_CASE("names, shapes and the number of parameters are those of torchvision") {
  const auto check = [](const std::string& name, const nn::Module& net, std::int64_t parameters) {
    CAPTURE(name);
    const auto bytes = golden().get(name, "state").to_vector<std::uint8_t>();
    std::string text;
    for (const auto& [key, t] : net.state_dict()) {
      text += (text.empty() ? "" : "\n") + key + " [";
      for (int d = 0; d < t.dim(); ++d) text += fmt::format("{}{}", d > 0 ? ", " : "", t.size(d));
      text += "]";
    }
    CHECK(text == std::string(bytes.begin(), bytes.end()));
    CHECK(net.num_parameters() == parameters);
  };
  check("resnet18", nn::ResNet18(), 11'689'512);
  check("resnet34", nn::ResNet34(), 21'797'672);
  check("resnet50", nn::ResNet50(), 25'557'032);
  // 1 channel instead of 3, a kernel of 3 instead of 7, and 10 classes instead of 1000.
  CHECK(
      nn::ResNet18({.classes = 10, .in_channels = 1, .stem = ResNetStem::small}).num_parameters() ==
      11'689'512 - 64 * (3 * 49 - 9) - 990 * 513);
  CHECK(nn::ResNet18(10, 1).num_parameters() == 11'689'512 - 64 * 2 * 49 - 990 * 513);
}

TEST_CASE("weights are initialised as in torchvision") {
  manual_seed(1);
  nn::ResNet net(ResNetBlock::bottleneck, {1, 1, 1, 1}, {.classes = 10, .width = 16});
  for (const auto& [name, p] : net.named_parameters()) {
    CAPTURE(name);
    const auto values = p.to_vector<double>();
    if (p.dim() == 4) {
      const auto out = static_cast<double>(p.size(0) * p.size(2) * p.size(3));
      double squares = 0;
      for (double v : values) squares += v * v;
      const auto n = static_cast<double>(values.size());
      // Within 5 standard deviations for n normal numbers.
      CHECK(std::abs(squares / n * out / 2 - 1) < 5 * std::sqrt(2 / n));
    } else if (p.dim() == 1 && name != "fc.bias") {
      check_close(p, std::vector<double>(values.size(), name.ends_with("weight") ? 1 : 0), 0);
    } else {
      for (double v : values) CHECK(std::abs(v) <= 1 / std::sqrt(16 * 8 * 4.0));
    }
  }
}

TEST_CASE("with zero_init_residual every block starts as the identity") {
  for (ResNetBlock block : {ResNetBlock::basic, ResNetBlock::bottleneck}) {
    nn::ResNet net(block, {1, 2, 1, 1}, {.zero_init_residual = true, .width = 2});
    const std::string last = block == ResNetBlock::basic ? "bn2.weight" : "bn3.weight";
    int zeros = 0;
    for (const auto& [name, p] : net.named_parameters())
      if (p.dim() == 1 && name.ends_with(".weight")) {
        const double expected = name.ends_with(last) ? 0 : 1;
        zeros += name.ends_with(last);
        check_close(p, std::vector<double>(static_cast<std::size_t>(p.numel()), expected), 0);
      }
    CHECK(zeros == 5);
  }
  nn::BasicBlock block(3, 3, 1, /*zero_init_residual=*/true);
  const Tensor x = hash_uniform({2, 3, 5, 4}, 7, 1);
  check_close(block(x), relu(x), 0);
}

TEST_CASE("fused blocks agree with the composition of their layers") {
  for (const Case& c : kCases)
    for (bool training : {true, false})
      for (MemoryFormat format : {kContiguous, kChannelsLast}) {
        CAPTURE(c.name);
        CAPTURE(training);
        nn::ResNet net(c.block, c.blocks, c.options);
        net.to(kFloat64);
        fill(net);
        net.to(format).train(training);
        const auto plain = net.clone();
        const Tensor x = hash_uniform(c.input, 3, 1).to(kFloat64).contiguous(format);
        const Tensor y = net(x), expected = composed(*plain, x);
        check_close(y, expected, 1e-11, 1e-11);
        const Tensor dy = hash_uniform(y.shape(), 4, 1).to(kFloat64);
        y.backward(dy);
        expected.backward(dy);
        const auto ours = net.named_parameters(), theirs = plain->named_parameters();
        for (std::size_t i = 0; i < ours.size(); ++i) {
          CAPTURE(ours[i].first);
          REQUIRE(ours[i].second.grad().defined());
          check_close(ours[i].second.grad(), theirs[i].second.grad(), 1e-9, 1e-10);
        }
        const auto buffers = net.buffers(), others = plain->buffers();
        for (std::size_t i = 0; i < buffers.size(); ++i)
          check_close(buffers[i], others[i], 1e-11, 1e-12);
      }
}

TEST_CASE("images of every size give logits, and gradients reach every parameter") {
  const auto check = [](nn::Module& net, const Shape& input, std::int64_t classes) {
    CAPTURE(input);
    const Tensor y = net(hash_uniform(input, 5, 1));
    CHECK(y.shape() == Shape{input[0], classes});
    y.sum().backward();
    for (const auto& [name, p] : net.named_parameters()) {
      CAPTURE(name);
      REQUIRE(p.grad().defined());
      CHECK(p.grad().shape() == p.shape());
      if (name == "fc.weight") CHECK(norm(p.grad()).item<double>() > 0);
    }
    net.zero_grad();
  };
  const nn::ResNetOptions small{.classes = 10, .stem = ResNetStem::small, .width = 4};
  nn::ResNetOptions gray = small;
  gray.in_channels = 1;
  nn::ResNet18 net18(gray);
  check(net18, {2, 1, 28, 28}, 10);
  nn::ResNet34 net34(small);
  check(net34, {2, 3, 32, 32}, 10);
  nn::ResNet50 net50({.classes = 12, .width = 2});
  check(net50, {2, 3, 224, 224}, 12);
  check(net50, {1, 3, 97, 65}, 12);
  CHECK_THROWS_AS(net18(zeros({2, 3, 28, 28})), ShapeError);
}

TEST_CASE("blocks recomputed in backward: the same step, with less memory") {
  for (const ResNetBlock block : {ResNetBlock::basic, ResNetBlock::bottleneck})
    for (const bool cumulative : {false, true}) {
      manual_seed(5);
      nn::ResNetOptions options{
          .classes = 5, .in_channels = 2, .stem = ResNetStem::small, .width = 4};
      nn::ResNet plain(block, {2, 1, 1, 1}, options);
      options.checkpoint_blocks = true;
      nn::ResNet checkpointed(block, {2, 1, 1, 1}, options);
      checkpointed.load_state_dict(plain.state_dict());
      if (cumulative)  // running statistics that are the mean over all batches
        for (nn::ResNet* net : {&plain, &checkpointed})
          for (nn::Module* module : net->modules())
            if (auto* norm = dynamic_cast<nn::BatchNorm*>(module)) norm->set_momentum(std::nullopt);
      const Tensor images = randn({3, 2, 12, 12});
      const Tensor labels = from_vector(std::vector<std::int64_t>{0, 4, 2}, {3});
      std::size_t kept[2];
      int i = 0;
      for (nn::ResNet* net : {&plain, &checkpointed})
        for (int step = 0; step < 2; ++step) {
          net->zero_grad();
          const std::size_t before = memory_allocated(Device());
          const Tensor loss = cross_entropy((*net)(images), labels);
          if (step == 1) kept[i++] = memory_allocated(Device()) - before;
          loss.backward();
        }
      CHECK(kept[1] * 2 < kept[0]);
      for (std::size_t p = 0; p < plain.parameters().size(); ++p)
        check_equal(checkpointed.parameters()[p].grad(), plain.parameters()[p].grad());
      for (std::size_t b = 0; b < plain.buffers().size(); ++b)
        check_equal(checkpointed.buffers()[b], plain.buffers()[b]);
    }
}

TEST_CASE("channels-last is kept without conversion copies") {
  nn::ResNet net(ResNetBlock::basic, {1, 1, 1, 1}, {.stem = ResNetStem::small, .width = 4});
  net.to(kChannelsLast);
  Tensor x = hash_uniform({2, 3, 16, 16}, 6, 1).contiguous(kChannelsLast);
  for (const char* name : {"conv1", "bn1", "layer1", "layer2", "layer3", "layer4"}) {
    CAPTURE(name);
    x = (*child(net, name))(x);
    CHECK(x.is_contiguous(kChannelsLast));
  }
}

TEST_CASE("clones, state dicts and wrong sizes") {
  nn::ResNet18 net({.classes = 4, .width = 2});
  const auto copy = net.clone();
  const Tensor x = hash_uniform({2, 3, 32, 32}, 8, 1);
  check_equal((*copy)(x).detach(), net(x).detach());
  nn::ResNet18 other({.classes = 4, .width = 2});
  CHECK(other.load_state_dict(net.state_dict()).complete());
  other.eval();
  net.eval();
  check_equal(other(x).detach(), net(x).detach());
  CHECK_THROWS_AS(nn::ResNet18(0), ValueError);
  CHECK_THROWS_AS(nn::ResNet18({.width = 0}), ValueError);
  CHECK_THROWS_AS(nn::ResNet(ResNetBlock::basic, {1, 1, 0, 1}), ValueError);
}
