// The host's cost of operations on few elements: Ferrite's side of compare.py. One measurement for
// every line on stdin, which names a case; one line of JSON for each on stdout.
#include <ferrite/ferrite.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <climits>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ferrite/benchmarks/program.h"

namespace {

using namespace ferrite;

Tensor chain(const Tensor& x, const Tensor& y, int length) {
  Tensor t = x;
  for (int i = 0; i < length; ++i) t = t + y;
  return t;
}

/// The operands of the cases.
struct Inputs {
  explicit Inputs(const Device& device)
      : x(ones({1}, {.device = device})), w(ones({1}, {.device = device}).set_requires_grad()) {
    for (int i = 0; i < 100; ++i) {
      parameters.push_back(ones({16}, {.device = device}).set_requires_grad());
      parameters.back().set_grad(ones({16}, {.device = device}));
    }
    logits = randn({4, 10}, {.device = device}).set_requires_grad();
    target = ones({4}, {.dtype = kInt64, .device = device});
  }

  Tensor x, w;  // one element; `w` requires a gradient
  std::vector<Tensor> parameters;
  Tensor logits, target;
};

/// Runs the case once.
void once(const std::string& name, const Inputs& inputs, optim::SGD& sgd, optim::Adam& adam) {
  const Tensor &x = inputs.x, &w = inputs.w;
  if (name == "add")
    x + x;
  else if (name == "add_recorded")
    w + x;
  else if (name == "add_backward")
    (w + x).backward();
  else if (name == "chain10_backward")
    chain(w, x, 10).backward();
  else if (name == "chain20_backward")
    chain(w, x, 20).backward();
  else if (name == "cross_entropy")
    cross_entropy(inputs.logits, inputs.target).backward();
  else if (name == "sgd_step")
    sgd.step();
  else if (name == "adam_step")
    adam.step();
  else
    fail<ValueError>("bench_host_cost", "no case '{}'", name);
}

/// Number of runs of a measurement with `repeats` of an operation.
int repeats_of(const std::string& name, int repeats) {
  return name.ends_with("_step") ? (repeats + 49) / 50 : repeats;
}

/// Number of runs of a case that a device's queue accepts without blocking the host; any number on
/// the CPU.
int run_length(const std::string& name, const Device& device) {
  if (device.is_cpu()) return INT_MAX;
  if (name == "add" || name == "add_recorded") return 400;
  if (name == "add_backward") return 100;
  return name == "chain10_backward" || name == "cross_entropy" ? 20 : 10;
}

/// Nanoseconds for `repeats` runs of the case.
double run(const std::string& name, int repeats, const Inputs& inputs, optim::SGD& sgd,
           optim::Adam& adam) {
  const Device device = inputs.x.device();
  using Clock = std::chrono::steady_clock;
  std::chrono::duration<double, std::nano> total{};
  while (repeats > 0) {
    const int count = std::min(repeats, run_length(name, device));
    synchronize(device);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < count; ++i) once(name, inputs, sgd, adam);
    total += Clock::now() - start;
    repeats -= count;
  }
  return total.count();
}

void serve(int repeats, const Device& device) {
  set_num_threads(1);
  const Inputs inputs(device);
  optim::SGD sgd(inputs.parameters, {.lr = 1e-3, .momentum = 0.9});
  optim::Adam adam(inputs.parameters);
  const auto print = [](const nlohmann::json& json) { std::cout << json.dump() << std::endl; };
  nlohmann::json info = {{"ready", true},
                         {"framework", "Ferrite"},
                         {"version", FERRITE_VERSION},
                         {"compiler", __VERSION__}};
  if (device.is_cuda()) info["device"] = cuda::properties(device.index()).name;
  print(info);
  for (std::string name; std::getline(std::cin, name);) {
    const int count = repeats_of(name, repeats);
    run(name, (count + 9) / 10, inputs, sgd, adam);
    print({{"case", name}, {"nanoseconds", run(name, count, inputs, sgd, adam) / count}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Measures operations on few elements. Every line on stdin names a case (add, "
      "add_recorded, add_backward, chain10_backward, chain20_backward, cross_entropy, sgd_step, "
      "adam_step) and is answered by a line of JSON.");
  int repeats = 20000;
  std::string device = "cpu";
  app.option_defaults()->group("Measurement");
  app.add_option("--device", device, "cpu, cuda or cuda:1 ...")->capture_default_str();
  app.add_option("--repeats", repeats, "runs of the case per measurement")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return bench::run(app, argc, argv, [&] { serve(repeats, Device(device)); });
}
