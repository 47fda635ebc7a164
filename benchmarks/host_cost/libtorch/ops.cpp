// The host's cost of operations on one element: libtorch's side of ../compare.py, built where
// libtorch's headers are found.
#include <torch/torch.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

namespace {

torch::Tensor chain(const torch::Tensor& x, const torch::Tensor& y, int length) {
  torch::Tensor t = x;
  for (int i = 0; i < length; ++i) t = t + y;
  return t;
}

bool once(const std::string& name, const torch::Tensor& x, const torch::Tensor& w) {
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
    return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  int repeats = 20000;
  if (argc == 3 && std::strcmp(argv[1], "--repeats") == 0) repeats = std::atoi(argv[2]);
  if ((argc != 1 && argc != 3) || repeats < 1) {
    std::cout << "usage: bench_host_cost_libtorch [--repeats N]\n"
                 "Measures operations on one element. Every line on stdin names a case (add,\n"
                 "add_recorded, add_backward, chain10_backward, chain20_backward) and is answered\n"
                 "by a line of JSON.\n";
    return argc == 2 && std::strcmp(argv[1], "--help") == 0 ? 0 : 2;
  }
  using Clock = std::chrono::steady_clock;
  torch::set_num_threads(1);
  const torch::Tensor x = torch::ones({1});
  const torch::Tensor w = torch::ones({1}, torch::requires_grad());
  std::cout << R"({"ready": true, "framework": "libtorch", "version": ")" << TORCH_VERSION
            << R"(", "compiler": ")" << __VERSION__ << "\"}" << std::endl;
  for (std::string name; std::getline(std::cin, name);) {
    for (int i = 0; i < repeats / 10; ++i)
      if (!once(name, x, w)) {
        std::cerr << "no case '" << name << "'\n";
        return 1;
      }
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < repeats; ++i) once(name, x, w);
    const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
    std::cout << R"({"case": ")" << name << R"(", "nanoseconds": )" << elapsed.count() / repeats
              << "}" << std::endl;
  }
}
