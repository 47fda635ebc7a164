// Times scaled_dot_product_attention, on request, for compare.py in this folder: for each line
// "<forward|backward> <length> <causal>" on standard input the time of one call in milliseconds,
// the median of those that fit into a quarter of a second; backward is forward and backward
// together.
#include <time.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/benchmarks/program.h"
#include "ferrite/ops/attention.h"
#include "ferrite/ops/creation.h"

using namespace ferrite;

namespace {

constexpr std::int64_t kBatch = 1, kHeads = 8, kWidth = 64;

double now(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

double median(std::vector<double>& times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

std::pair<double, double> measure(bool backward, std::int64_t length, bool causal) {
  std::vector<Tensor> in;
  for (int i = 0; i < 3; ++i) {
    in.push_back(randn({kBatch, kHeads, length, kWidth}));
    if (backward) in.back().set_requires_grad();
  }
  const Tensor grad = randn({kBatch, kHeads, length, kWidth});
  const auto call = [&] {
    const Tensor out = scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = causal});
    if (backward) out.backward(grad);
    for (const Tensor& t : in) t.set_grad({});
  };
  call();
  std::vector<double> wall, processor;
  const double begin = now(CLOCK_MONOTONIC);
  while (wall.size() < 3 || now(CLOCK_MONOTONIC) - begin < 250) {
    const double start = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
    call();
    wall.push_back(now(CLOCK_MONOTONIC) - start);
    processor.push_back(now(CLOCK_PROCESS_CPUTIME_ID) - used);
  }
  return {median(wall), median(processor)};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times attention on request; compare.py in this folder asks");
  return bench::run(app, argc, argv, [] {
    bench::answer({{"name", "Ferrite"}});
    std::string direction;
    std::int64_t length = 0;
    int causal = 0;
    while (std::cin >> direction >> length >> causal) {
      const auto [wall, processor] = measure(direction == "backward", length, causal != 0);
      bench::answer({{"wall", wall}, {"processor", processor}});
    }
  });
}
