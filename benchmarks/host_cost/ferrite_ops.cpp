// The host's cost of operations on one element: Ferrite's side of compare.py. One measurement for
// every line on stdin, which names a case; one line of JSON for each on stdout.
#include <ferrite.h>

#include <CLI/CLI.hpp>
#include <chrono>
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

void serve(int repeats) {
  using Clock = std::chrono::steady_clock;
  set_num_threads(1);
  const Tensor x = ones({1});
  const Tensor w = ones({1}).set_requires_grad();
  const auto print = [](const nlohmann::json& json) { std::cout << json.dump() << std::endl; };
  print({{"ready", true},
         {"framework", "Ferrite"},
         {"version", FERRITE_VERSION},
         {"compiler", __VERSION__}});
  for (std::string name; std::getline(std::cin, name);) {
    for (int i = 0; i < repeats / 10; ++i) once(name, x, w);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < repeats; ++i) once(name, x, w);
    const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
    print({{"case", name}, {"nanoseconds", elapsed.count() / repeats}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Measures operations on one element. Every line on stdin names a case (add, "
      "add_recorded, add_backward, chain10_backward, chain20_backward) and is answered "
      "by a line of JSON.");
  int repeats = 20000;
  app.add_option("--repeats", repeats, "runs of the case a measurement")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    serve(repeats);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
