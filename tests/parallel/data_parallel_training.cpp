#include "ferrite/tests/parallel/data_parallel_training.h"

#include "ferrite/tests/support/golden.h"

namespace ferrite::test {

namespace {

/// The name in PyTorch's file, without dots.
std::string recorded(std::string name) {
  for (char& c : name)
    if (c == '.') c = '_';
  return name;
}

struct BatchNormCase {
  int devices;
  std::int64_t batch;
};

void check_case(const Golden& golden, DeviceType type, const BatchNormCase& c) {
  const std::string what = fmt::format("{} devices, {}", c.devices, c.batch);
  CAPTURE(what);
  const std::vector<Device> devices = devices_of(type, c.devices);
  nn::Sequential net(nn::Conv2d(2, 4, 3), nn::BatchNorm2d(4), nn::ReLU(), nn::Flatten(),
                     nn::Linear(4 * 4 * 4, 3));
  net.to(kFloat64);
  StateDict start;
  for (const auto& [name, t] : net.state_dict())
    start.insert(name, golden.get("start", recorded(name)));
  net.load_state_dict(start);
  net.to(devices[0]);
  parallel::DataParallel dp(net, devices);
  optim::SGD sgd(dp.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 3; ++step) {
    CAPTURE(step);
    const std::string at = fmt::format("{}, step {}", what, step);
    sgd.zero_grad();
    const Tensor out = dp(golden.get(at, "x"));
    check_close(out.cpu(), golden.get(at, "out"), 1e-9, 1e-9);
    cross_entropy(out, golden.get(at, "y").to(devices[0])).backward();
    for (const auto& [name, p] : dp.named_parameters())
      check_close(p.grad().cpu(), golden.get(at + ", gradients", recorded(name)), 1e-8, 1e-9);
    sgd.step();
  }
  for (const auto& [name, t] : dp.state_dict()) {
    CAPTURE(name);
    check_close(t.cpu(), golden.get(what + ", end", recorded(name)), 1e-8, 1e-9);
  }
}

}  // namespace

void check_batch_norm(DeviceType type) {
  const Golden golden("data_parallel");
  for (const BatchNormCase& c : {BatchNormCase{2, 8}, {2, 7}, {3, 7}, {4, 10}, {4, 3}})
    check_case(golden, type, c);
}

}  // namespace ferrite::test
