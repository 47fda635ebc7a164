// Models split into stages, against the same unsplit model on the host.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "ferrite/autograd/record.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/stream.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/loss.h"
#include "ferrite/ops/creation.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/parallel/pipeline/pipeline.h"
#include "ferrite/tests/support/close.h"

namespace ferrite::test {

/// Seven layers with parameters in five of them; [N, 2, 6, 6] to [N, 3].
inline nn::Sequential small_network(DType dtype = kFloat64) {
  manual_seed(3);
  nn::Sequential net(nn::Conv2d(2, 4, 3), nn::Tanh(), nn::Conv2d(4, 4, 3), nn::ReLU(),
                     nn::Flatten(), nn::Linear(16, 8), nn::GELU(), nn::Linear(8, 8), nn::Tanh(),
                     nn::Linear(8, 3));
  net.to(dtype);
  return net;
}

/// `count` stages on the devices in turn.
inline std::vector<Device> in_turn(const std::vector<Device>& devices, int count) {
  std::vector<Device> stages;
  for (int i = 0; i < count; ++i)
    stages.push_back(devices[static_cast<std::size_t>(i) % devices.size()]);
  return stages;
}

inline std::vector<Device> virtual_devices(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.emplace_back(DeviceType::cpu, i);
  return devices;
}

inline void synchronize_all(int devices = 4) {
  for (const Device& device : virtual_devices(devices)) synchronize(device);
}

/// Passes its input on and calls back with the number of the call, as work of the device's stream,
/// in forward and in backward.
struct Spy : nn::Cloneable<Spy> {
  using Call = std::function<void(int)>;
  Spy(Call on_forward, Call on_backward)
      : on_forward(std::move(on_forward)), on_backward(std::move(on_backward)) {}
  Tensor forward(const Tensor& x) override {
    const int call = calls++;
    if (on_forward) current_stream(x.device()).enqueue([f = on_forward, call] { f(call); });
    Tensor out = x.detach();
    if (autograd::recording(x))
      autograd::record(out, "spy", {x},
                       [f = on_backward, call](const Tensor& gradient, autograd::Needs) {
                         if (f) current_stream(gradient.device()).enqueue([f, call] { f(call); });
                         return gradient;
                       });
    return out;
  }
  Call on_forward, on_backward;
  int calls = 0;
};

struct PipelineRun {
  std::vector<Tensor> outputs, gradients, weights;  ///< on the host
};

struct Batches {
  std::int64_t rows = 7;
  int steps = 3;
  DType dtype = kFloat64;
};

/// Steps of `model(...)`, whose output is on `device`; gradients are those of the last step.
inline PipelineRun train(nn::Module& model, const Device& device, const Batches& b = {}) {
  optim::SGD sgd(model.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
  PipelineRun t;
  for (int step = 0; step < b.steps; ++step) {
    manual_seed(50 + static_cast<std::uint64_t>(step));
    const Tensor x = randn({b.rows, 2, 6, 6}, {.dtype = b.dtype});
    std::vector<std::int64_t> y;
    for (std::int64_t i = 0; i < b.rows; ++i) y.push_back((i + step) % 3);
    sgd.zero_grad();
    const Tensor out = model(x);
    CHECK(out.device() == device);
    cross_entropy(out, from_vector(y, {b.rows}).to(device)).backward();
    t.outputs.push_back(out.detach().cpu());
    t.gradients.clear();
    for (const Tensor& p : model.parameters())
      t.gradients.push_back(p.grad().defined() ? p.grad().cpu() : Tensor());
    sgd.step();
  }
  for (const auto& [name, tensor] : model.state_dict()) t.weights.push_back(tensor.cpu().clone());
  return t;
}

inline void check_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                       double tolerance) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].defined() == b[i].defined());
    if (a[i].defined() && b[i].defined()) check_close(a[i], b[i], tolerance, tolerance);
  }
}
inline void check_same(const PipelineRun& a, const PipelineRun& b, double tolerance) {
  check_same(a.outputs, b.outputs, tolerance);
  check_same(a.gradients, b.gradients, tolerance);
  check_same(a.weights, b.weights, tolerance);
}

inline constexpr parallel::PipelineCheckpoint kCheckpoints[] = {
    parallel::PipelineCheckpoint::always, parallel::PipelineCheckpoint::except_last,
    parallel::PipelineCheckpoint::never};

/// Stages 1 to 4 of `devices`, micro-batches 1 to 8 and all checkpoint modes; runs one of `every`
/// of the combinations.
inline void check_training(const std::vector<Device>& devices, int every, double tolerance,
                           const Batches& b = {}) {
  nn::Sequential whole = small_network(b.dtype);
  const PipelineRun expected = train(whole, Device(), b);
  int combination = 0;
  for (int stages = 1; stages <= 4; ++stages)
    for (int chunks = 1; chunks <= 8; ++chunks)
      for (const auto checkpoint : kCheckpoints) {
        if (combination++ % every != 0) continue;
        CAPTURE(stages);
        CAPTURE(chunks);
        CAPTURE(static_cast<int>(checkpoint));
        nn::Sequential net = small_network(b.dtype);
        parallel::Pipeline pipe(net, in_turn(devices, stages),
                                {.chunks = chunks, .checkpoint = checkpoint});
        check_same(train(pipe, pipe.output_device(), b), expected, tolerance);
      }
}

}  // namespace ferrite::test
