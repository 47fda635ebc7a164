// Pipelines with batch norms.
#include <doctest/doctest.h>

#include "ferrite/nn/models/resnet_layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/parallel/ddp/sync_batch_norm.h"
#include "ferrite/tests/parallel/pipelines.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::parallel;
using namespace ferrite::test;
using enum PipelineCheckpoint;

TEST_CASE("batch norm: by micro-batch, with running statistics of each or of all together") {
  const auto network = [](std::optional<double> momentum) {
    nn::Sequential net(nn::BatchNorm2d(2, {.momentum = momentum}), nn::Conv2d(2, 4, 3),
                       nn::BatchNorm2d(4, {.momentum = momentum}), nn::ReLU(), nn::Flatten(),
                       nn::Linear(64, 3));
    net.to(kFloat64);
    return net;
  };
  manual_seed(4);
  const Tensor x = randn({7, 2, 6, 6}, {.dtype = kFloat64}) * 2.0 + 1.0;
  for (const auto momentum : {std::optional<double>(0.1), std::optional<double>()})
    for (const auto checkpoint : kCheckpoints)
      for (const bool deferred : {false, true}) {
        CAPTURE(deferred);
        manual_seed(4);
        nn::Sequential net = network(momentum);
        manual_seed(4);
        nn::Sequential expected = network(momentum);
        Pipeline pipe(net, {"cpu:0", "cpu:1"},
                      {.chunks = 3,
                       .checkpoint = checkpoint,
                       .balance = {3, 3},
                       .deferred_batch_norm = deferred});
        const Tensor y = pipe(x);
        y.pow(2).sum().backward();
        // On one device: micro-batch after micro-batch.
        Tensor loss;
        std::vector<Tensor> parts;
        for (const auto& [from, rows] : {std::pair{0, 3}, {3, 3}, {6, 1}}) {
          parts.push_back(expected(x.narrow(0, from, rows)));
          const Tensor part = parts.back().pow(2).sum();
          loss = loss.defined() ? loss + part : part;
        }
        loss.backward();
        check_close(y.narrow(0, 3, 3).cpu(), parts[1], 1e-10, 1e-11);
        for (std::size_t i = 0; i < net.parameters().size(); ++i)
          check_close(net.parameters()[i].grad().cpu(), expected.parameters()[i].grad(), 1e-9,
                      1e-9);
        const auto state = net.state_dict();
        if (!deferred) {
          for (const auto& [name, t] : expected.state_dict())
            check_close(state.at(name).cpu(), t, 1e-10, 1e-11);
          continue;
        }
        CHECK(state.at("0.num_batches_tracked").cpu().item<int>() == 1);
        nn::Sequential whole = network(momentum);
        whole(x);  // whose first norm sees the same batch
        for (const char* name : {"0.running_mean", "0.running_var"})
          check_close(state.at(name).cpu(), whole.state_dict().at(name), 1e-10, 1e-11);
        CHECK(state.at("2.running_var").cpu().to_vector<double>() !=
              whole.state_dict().at("2.running_var").to_vector<double>());
        CHECK_FALSE(dynamic_cast<nn::BatchNorm2d&>(net[0]).is_synchronized());
        pipe.eval();
        pipe(x);
        CHECK(net.state_dict().at("0.num_batches_tracked").cpu().item<int>() == 1);
      }
}

TEST_CASE("ResNet-18 as a list of its layers, over three devices") {
  for (const auto stem : {nn::ResNetStem::small, nn::ResNetStem::standard}) {
    manual_seed(2);
    const nn::ResNetOptions options{.classes = 3, .stem = stem, .width = 4};
    nn::ResNet18 whole(options);
    manual_seed(2);
    nn::ResNet18 net(options);
    whole.to(kFloat64);
    nn::Sequential layers = nn::resnet_layers(net);
    net.to(kFloat64);  // the list shares its tensors
    CHECK(layers.size() == (stem == nn::ResNetStem::small ? 14 : 15));
    CHECK(layers.num_parameters() == net.num_parameters());
    CHECK(layers.parameters()[0].is_same(net.parameters()[0]));
    Pipeline pipe(layers, virtual_devices(3), {.chunks = 2});
    const Tensor x = randn({4, 3, 16, 16}, {.dtype = kFloat64});
    pipe(x);  // updates its running statistics, which loading then sets
    for (nn::Module* model : {static_cast<nn::Module*>(&pipe), static_cast<nn::Module*>(&whole)})
      model->eval();
    net.load_state_dict(whole.state_dict());
    const Tensor y = pipe(x), expected = whole(x);
    check_close(y.cpu(), expected, 1e-10, 1e-11);
    y.sum().backward();
    expected.sum().backward();
    const auto with = whole.named_parameters(), there = net.named_parameters();
    for (std::size_t i = 0; i < with.size(); ++i) {
      CHECK(there[i].first == with[i].first);
      check_close(there[i].second.grad().cpu(), with[i].second.grad(), 1e-9, 1e-10);
    }
  }
}

TEST_CASE("a list of layers has the modes of the network that it is made of") {
  nn::ResNet18 net({.classes = 3, .stem = nn::ResNetStem::small, .width = 4});
  for (nn::Module* module : net.modules())
    if (dynamic_cast<nn::BatchNorm*>(module)) module->eval();
  const nn::Sequential layers = nn::resnet_layers(net);
  int norms = 0;
  for (const nn::Module* module : layers.modules()) {
    const bool is_norm = dynamic_cast<const nn::BatchNorm*>(module) != nullptr;
    CHECK(module->is_training() == !is_norm);
    norms += is_norm;
  }
  CHECK(norms == 20);
  net.eval();
  const nn::Sequential evaluated = nn::resnet_layers(net);
  for (const nn::Module* module : evaluated.modules()) CHECK_FALSE(module->is_training());
}

TEST_CASE("deferred norms that are synchronised later stay so") {
  nn::Sequential net(nn::BatchNorm1d(4), nn::Linear(4, 2), nn::BatchNorm1d(2));
  auto& norm = dynamic_cast<nn::BatchNorm&>(net[0]);
  Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = 2, .deferred_batch_norm = true});
  convert_sync_batchnorm(net[0]);
  pipe(randn({8, 4})).sum().backward();
  CHECK(norm.is_synchronized());
  CHECK(norm.num_batches_tracked.cpu().item<int>() == 2);  // one per micro-batch
  CHECK_FALSE(dynamic_cast<nn::BatchNorm&>(net[2]).is_synchronized());
  CHECK(net.state_dict().at("2.num_batches_tracked").cpu().item<int>() == 1);
  revert_sync_batchnorm(net[0]);
  pipe(randn({8, 4})).sum().backward();
  CHECK(norm.num_batches_tracked.cpu().item<int>() == 3);  // one for both
}

TEST_CASE("deferred norms cannot train on one row either, which leaves them as they are") {
  for (const bool deferred : {false, true})
    for (const std::int64_t rows : {7, 1}) {  // 3, 3, 1
      CAPTURE(deferred);
      nn::Sequential net(nn::BatchNorm1d(4), nn::Linear(4, 2));
      Pipeline pipe(net, {"cpu:0", "cpu:1"}, {.chunks = 3, .deferred_batch_norm = deferred});
      const Tensor x = randn({rows, 4});
      CHECK(message_of<ShapeError>([&] { pipe(x); }).find("a single value a channel") !=
            std::string::npos);
      if (!deferred && rows > 1) continue;  // the first two have updated their statistics
      const auto state = net.state_dict();
      CHECK(state.at("0.running_mean").cpu().to_vector<double>() == std::vector<double>(4, 0));
      CHECK(state.at("0.running_var").cpu().to_vector<double>() == std::vector<double>(4, 1));
      if (deferred) CHECK(state.at("0.num_batches_tracked").cpu().item<int>() == 0);
      pipe(randn({6, 4})).sum().backward();
      CHECK(state.at("0.num_batches_tracked").cpu().item<int>() > 0);
    }
}
