// Residual networks on cuda:0, emulated or real, compared with the host.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "ferrite/nn/graphed_step.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/nn/resnet18.h"
#include "ferrite/tests/nn/resnet_support.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/hash.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

void check_device(nn::ResNetBlock block, const nn::ResNetOptions& options, const Shape& input,
                  MemoryFormat format) {
  CAPTURE(static_cast<int>(block));
  CAPTURE(static_cast<int>(format));
  nn::ResNet host(block, {1, 1, 1, 1}, options);
  fill(host);
  host.to(format);
  const auto device = host.clone();
  device->to(Device("cuda:0"));
  const Tensor x = hash_uniform(input, 1000, 1).contiguous(format);
  const Tensor target = labels(input[0], options.classes);
  const Tensor expected = host(x), y = (*device)(x.to(Device("cuda:0")));
  CHECK(y.device() == Device("cuda:0"));
  check_close(y, expected, 1e-4, 1e-5);
  cross_entropy(expected, target).backward();
  cross_entropy(y, target.to(Device("cuda:0"))).backward();
  const auto ours = device->named_parameters(), theirs = host.named_parameters();
  for (std::size_t i = 0; i < ours.size(); ++i) {
    CAPTURE(ours[i].first);
    REQUIRE(ours[i].second.grad().defined());
    check_close(ours[i].second.grad(), theirs[i].second.grad(), 1e-3, 2e-5);
  }
  const auto buffers = device->buffers(), others = host.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) check_close(buffers[i], others[i], 1e-4, 1e-5);
  device->eval();
  host.eval();
  check_close((*device)(x.to(Device("cuda:0"))), host(x), 1e-4, 1e-5);
}

/// The final state of a run of training steps, for bitwise comparison.
struct Outcome {
  std::vector<float> losses;
  std::vector<std::vector<float>> state;  // weights and running statistics
  std::int64_t replayed;
};

Outcome train(int warmup) {
  const Device device("cuda:0");
  nn::ResNet net(nn::ResNetBlock::basic, {1, 1, 1, 1},
                 {.classes = 3, .stem = nn::ResNetStem::small, .width = 2});
  fill(net);
  net.to(device);
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  nn::GraphedStep step(net,
                       [&](const Tensor& images, const Tensor& target) {
                         const Tensor loss = cross_entropy(net(images), target);
                         sgd.zero_grad();
                         loss.backward();
                         sgd.step();
                         return loss;
                       },
                       {.warmup = warmup});
  Outcome outcome;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const Tensor x = hash_uniform({4, 3, 8, 8}, 1000 + i, 1);
    outcome.losses.push_back(step(x.to(device), labels(4, 3).to(device)).item<float>());
  }
  for (const auto& [name, t] : net.state_dict()) outcome.state.push_back(t.to_vector<float>());
  outcome.replayed = step.stats().replayed;
  return outcome;
}

}  // namespace

TEST_CASE("ResNet-18 with PyTorch's weights on a device") {
  REQUIRE_CUDA(1);
  check_resnet18_step(Device("cuda:0"), kChannelsLast);
}

TEST_CASE("residual networks on a device") {
  REQUIRE_CUDA(1);
  for (MemoryFormat format : {kContiguous, kChannelsLast}) {
    check_device(nn::ResNetBlock::basic, {.classes = 5, .width = 2}, {2, 3, 32, 33}, format);
    check_device(nn::ResNetBlock::bottleneck,
                 {.classes = 4, .in_channels = 1, .stem = nn::ResNetStem::small, .width = 2},
                 {3, 1, 9, 8}, format);
  }
}

TEST_CASE(
    "graphed steps of a residual network give the bits of eager ones, including running "
    "statistics") {
  REQUIRE_CUDA(1);
  const Outcome eager = train(100), graphed = train(2);
  CHECK(eager.replayed == 0);
  CHECK(graphed.replayed == 4);
  CHECK(graphed.losses == eager.losses);
  CHECK(graphed.state == eager.state);
  CHECK(eager.losses.back() < eager.losses.front());
}
