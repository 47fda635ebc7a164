// The host's cost of operations on few elements: libtorch's side of ../compare.py, built if
// libtorch's headers are found.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace {

torch::Tensor chain(const torch::Tensor& x, const torch::Tensor& y, int length) {
  torch::Tensor t = x;
  for (int i = 0; i < length; ++i) t = t + y;
  return t;
}

/// The operands of the cases.
struct Inputs {
  explicit Inputs(const torch::Device& device)
      : x(torch::ones({1}, device)),
        w(torch::ones({1}, torch::requires_grad().device(device))),
        logits(torch::randn({4, 10}, torch::requires_grad().device(device))),
        target(torch::ones({4}, torch::dtype(torch::kInt64).device(device))) {
    for (int i = 0; i < 100; ++i) {
      parameters.push_back(torch::ones({16}, torch::requires_grad().device(device)));
      parameters.back().mutable_grad() = torch::ones({16}, device);
    }
  }

  torch::Tensor x, w;  // one element; `w` requires a gradient
  torch::Tensor logits, target;
  std::vector<torch::Tensor> parameters;
};

bool once(const std::string& name, const Inputs& inputs, torch::optim::SGD& sgd,
          torch::optim::Adam& adam) {
  const torch::Tensor &x = inputs.x, &w = inputs.w;
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
    torch::nn::functional::cross_entropy(inputs.logits, inputs.target).backward();
  else if (name == "sgd_step")
    sgd.step();
  else if (name == "adam_step")
    adam.step();
  else
    return false;
  return true;
}

/// Number of runs of a measurement with `repeats` of an operation.
int repeats_of(const std::string& name, int repeats) {
  return name == "sgd_step" || name == "adam_step" ? (repeats + 49) / 50 : repeats;
}

/// Number of runs of a case that a device's queue accepts without blocking the host; any number on
/// the CPU.
int run_length(const std::string& name, const torch::Device& device) {
  if (device.is_cpu()) return INT_MAX;
  if (name == "add" || name == "add_recorded") return 400;
  if (name == "add_backward") return 100;
  return name == "chain10_backward" || name == "cross_entropy" ? 20 : 10;
}

/// Nanoseconds for `repeats` runs of the case; negative if there is no such case.
double run(const std::string& name, int repeats, const Inputs& inputs, torch::optim::SGD& sgd,
           torch::optim::Adam& adam) {
  const torch::Tensor& x = inputs.x;
  using Clock = std::chrono::steady_clock;
  std::chrono::duration<double, std::nano> total{};
  while (repeats > 0) {
    const int count = std::min(repeats, run_length(name, x.device()));
    if (x.is_cuda()) torch::cuda::synchronize(x.device().index());
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < count; ++i)
      if (!once(name, inputs, sgd, adam)) return -1;
    total += Clock::now() - start;
    repeats -= count;
  }
  return total.count();
}

int serve(int repeats, const torch::Device& device) {
  torch::set_num_threads(1);
  const Inputs inputs(device);
  torch::optim::SGD sgd(inputs.parameters, torch::optim::SGDOptions(1e-3).momentum(0.9));
  torch::optim::Adam adam(inputs.parameters);
  std::cout << R"({"ready": true, "framework": "libtorch", "version": ")" << TORCH_VERSION
            << R"(", "compiler": ")" << __VERSION__ << "\"}" << std::endl;
  for (std::string name; std::getline(std::cin, name);) {
    const int count = repeats_of(name, repeats);
    run(name, (count + 9) / 10, inputs, sgd, adam);
    const double nanoseconds = run(name, count, inputs, sgd, adam);
    if (nanoseconds < 0) {
      std::cerr << "no case '" << name << "'\n";
      return 1;
    }
    std::cout << R"({"case": ")" << name << R"(", "nanoseconds": )" << nanoseconds / count << "}"
              << std::endl;
  }
  return 0;
}

constexpr const char* kUsage =
    "usage: bench_host_cost_libtorch [--device cpu|cuda|cuda:N] [--repeats N]\n"
    "Measures operations on few elements. Every line on stdin names a case (add,\n"
    "add_recorded, add_backward, chain10_backward, chain20_backward, cross_entropy,\n"
    "sgd_step, adam_step) and is answered by a line of JSON.\n";

}  // namespace

int main(int argc, char** argv) {
  int repeats = 20000;
  std::string device = "cpu";
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 < argc && option == "--device") {
      device = argv[i + 1];
    } else if (i + 1 < argc && option == "--repeats" && std::atoi(argv[i + 1]) > 0) {
      repeats = std::atoi(argv[i + 1]);
    } else {
      std::cout << kUsage;
      return option == "--help" ? 0 : 2;
    }
  }
  try {
    torch::Device where(device);
    if (where.is_cuda() && !torch::cuda::is_available()) {
      std::cerr << "this libtorch sees no CUDA device\n";
      return 1;
    }
    if (where.is_cuda() && !where.has_index()) where.set_index(0);
    return serve(repeats, where);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
