// Training with DataParallel, against one device that has the whole batch.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/module.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/parallel/data_parallel/data_parallel.h"
#include "ferrite/parallel/data_parallel/data_parallel_criterion.h"
#include "ferrite/tests/support/close.h"

namespace ferrite::test {

inline std::vector<Device> devices_of(DeviceType type, int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.emplace_back(type, i);
  return devices;
}

inline std::vector<Device> two() { return devices_of(DeviceType::cpu, 2); }
inline std::vector<Device> four() { return devices_of(DeviceType::cpu, 4); }

/// On the first of the devices.
inline nn::Linear linear() {
  manual_seed(5);
  nn::Linear net(3, 2);
  net.to("cpu:0");
  return net;
}

/// On the host.
inline Tensor rows(std::int64_t n, std::int64_t width = 3) {
  return arange(0, n * width, 1, {.dtype = kFloat32}).reshape({n, width}) / 10.0;
}

/// Convolutions and layers, some of them frozen, some sharing a tensor.
struct PartsNet : nn::Cloneable<PartsNet> {
  explicit PartsNet(bool frozen, bool shared) {
    if (shared) {
      second.weight = first.weight;
      second.bias = first.bias;
    }
    register_module("conv", conv);
    register_module("first", first);
    register_module("second", second);
    register_module("fc", fc);
    if (frozen) requires_grad_(false, "conv.weight, second.bias, fc.bias");
  }
  Tensor forward(const Tensor& x) override {
    const Tensor h = relu(conv(x)).flatten(1);
    return fc(tanh(second(tanh(first(h)))));
  }
  nn::Conv2d conv{2, 2, 3};
  nn::Linear first{8, 8}, second{8, 8}, fc{8, 3};
};

struct DataParallelTraining {
  std::function<std::unique_ptr<nn::Module>()> make;
  std::vector<Device> devices = {};
  Shape batch = {12, 2, 4, 4};
  std::int64_t classes = 3;
  int steps = 3;
  double lr = 0.1;
  bool loss_in_replicas = false;
  MemoryFormat format = kContiguous;
  parallel::DataParallelOptions options = {};

  std::pair<Tensor, Tensor> data(int step) const {
    Generator random(100 + static_cast<std::uint64_t>(step));
    return {randn(batch, {}, &random).contiguous(format),
            randint(0, classes, {batch[0]}, {.dtype = kInt64}, &random)};
  }
};

/// On the host: losses, the gradients of the first step, and the final state.
struct Trained {
  std::vector<Tensor> losses, gradients, state;
};

/// `loss(images, labels)` for this many steps.
inline Trained train(const DataParallelTraining& c, nn::Module& model,
                     const std::function<Tensor(const Tensor&, const Tensor&)>& loss) {
  Trained trained;
  optim::SGD sgd(model.parameters(), {.lr = c.lr, .momentum = 0.9, .weight_decay = 1e-4});
  for (int step = 0; step < c.steps; ++step) {
    const auto [x, y] = c.data(step);
    sgd.zero_grad();
    const Tensor l = loss(x, y);
    l.backward();
    trained.losses.push_back(l.detach().cpu());
    if (step == 0)
      for (const Tensor& p : model.parameters())
        trained.gradients.push_back(p.grad().defined() ? p.grad().cpu().clone() : Tensor());
    sgd.step();
  }
  for (const auto& [name, t] : model.state_dict()) trained.state.push_back(t.cpu().clone());
  return trained;
}

inline std::unique_ptr<nn::Module> make_seeded(const DataParallelTraining& c) {
  manual_seed(1);
  std::unique_ptr<nn::Module> model = c.make();
  if (c.format == kChannelsLast) model->to(kChannelsLast);
  return model;
}

inline Trained train_alone(const DataParallelTraining& c) {
  const auto model = make_seeded(c);
  return train(c, *model,
               [&](const Tensor& x, const Tensor& y) { return cross_entropy((*model)(x), y); });
}

inline Trained train_parallel(const DataParallelTraining& c) {
  const auto model = make_seeded(c);
  model->to(c.devices[0]);
  parallel::DataParallel dp(*model, c.devices, c.options);
  parallel::DataParallelCriterion criterion(
      dp, [](const Tensor& out, const Tensor& y) { return cross_entropy(out, y); });
  return train(c, dp, [&](const Tensor& x, const Tensor& y) {
    if (c.loss_in_replicas) return criterion(dp.parallel_forward(x), y);
    return cross_entropy(dp(x), y.to(dp.output_device()));
  });
}

inline void check_trained(const Trained& actual, const Trained& expected, double tolerance) {
  const auto check = [&](const char* what, const auto& a, const auto& b) {
    CAPTURE(what);
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      CAPTURE(i);
      REQUIRE(a[i].defined() == b[i].defined());
      if (a[i].defined()) check_close(a[i], b[i], tolerance, tolerance);
    }
  };
  check("losses", actual.losses, expected.losses);
  check("gradients", actual.gradients, expected.gradients);
  check("weights", actual.state, expected.state);
}

/// Compares gradients, losses and weights with one device, for every combination of batches that
/// split evenly, unevenly or are smaller than the number of devices, of frozen and shared
/// parameters, and of where the loss is computed.
inline void check_all_combinations(DeviceType type, const std::vector<int>& counts) {
  for (const int n : counts)
    for (const std::int64_t batch : {std::int64_t{12}, std::int64_t{11}, std::int64_t{n - 1}})
      for (const bool frozen : {false, true})
        for (const bool shared : {false, true}) {
          const std::string what = fmt::format("{} devices, batch of {}{}{}", n, batch,
                                               frozen ? ", frozen" : "", shared ? ", shared" : "");
          CAPTURE(what);
          DataParallelTraining c{.make = [=] { return std::make_unique<PartsNet>(frozen, shared); },
                                 .devices = devices_of(type, n),
                                 .batch = {batch, 2, 4, 4}};
          // Several buckets.
          c.options.bucket_cap_mb = 2e-4;
          const Trained expected = train_alone(c);
          for (const bool in_replicas : {false, true}) {
            CAPTURE(in_replicas);
            c.loss_in_replicas = in_replicas;
            check_trained(train_parallel(c), expected, 1e-5);
          }
        }
}

/// The behaviour of PyTorch's DataParallel with batch norms.
void check_batch_norm(DeviceType type);

}  // namespace ferrite::test
