// The host's cost of operations on one element: Ferrite's side of compare.py. One measurement for
// every line on stdin, which names a case; one line of JSON for each on stdout.
#include <ferrite.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <climits>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using namespace ferrite;

Tensor chain(const Tensor& x, const Tensor& y, int length) {
  Tensor t = x;
  for (int i = 0; i < length; ++i) t = t + y;
  return t;
}

/// Runs the case once; `x` and `w` have one element, and `w` requires a gradient.
void once(const std::string& name, const Tensor& x, const Tensor& w) {
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
  else
    fail<ValueError>("bench_host_cost", "no case '{}'", name);
}

/// Runs of a case that a device's queue takes without holding up the host; any number on the CPU.
int run_length(const std::string& name, const Device& device) {
  if (device.is_cpu()) return INT_MAX;
  if (name == "add" || name == "add_recorded") return 400;
  if (name == "add_backward") return 100;
  return name == "chain10_backward" ? 20 : 10;
}

/// Nanoseconds in which the case was run `repeats` times.
double run(const std::string& name, int repeats, const Tensor& x, const Tensor& w) {
  using Clock = std::chrono::steady_clock;
  std::chrono::duration<double, std::nano> total{};
  while (repeats > 0) {
    const int count = std::min(repeats, run_length(name, x.device()));
    synchronize(x.device());
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < count; ++i) once(name, x, w);
    total += Clock::now() - start;
    repeats -= count;
  }
  return total.count();
}

void serve(int repeats, const Device& device) {
  set_num_threads(1);
  const Tensor x = ones({1}, {.device = device});
  const Tensor w = ones({1}, {.device = device}).set_requires_grad();
  const auto print = [](const nlohmann::json& json) { std::cout << json.dump() << std::endl; };
  nlohmann::json info = {{"ready", true},
                         {"framework", "Ferrite"},
                         {"version", FERRITE_VERSION},
                         {"compiler", __VERSION__}};
  if (device.is_cuda()) info["device"] = cuda::properties(device.index()).name;
  print(info);
  for (std::string name; std::getline(std::cin, name);) {
    run(name, repeats / 10, x, w);
    print({{"case", name}, {"nanoseconds", run(name, repeats, x, w) / repeats}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Measures operations on one element. Every line on stdin names a case (add, "
      "add_recorded, add_backward, chain10_backward, chain20_backward) and is answered "
      "by a line of JSON.");
  int repeats = 20000;
  std::string device = "cpu";
  app.add_option("--device", device, "cpu, cuda or cuda:1 ...")->capture_default_str();
  app.add_option("--repeats", repeats, "runs of the case a measurement")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    serve(repeats, Device(device));
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
