#include "benchmarks/data_parallel/measure.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace ferrite::bench {

std::unique_ptr<nn::Module> make_model(const std::string& name) {
  std::unique_ptr<nn::Module> model;
  if (name == "lenet") {
    model = std::make_unique<nn::LeNet5>();
  } else {
    FERRITE_CHECK(name == "resnet18", ValueError, "bench_data_parallel",
                  "expected the model resnet18 or lenet, got '{}'", name);
    model = std::make_unique<nn::ResNet18>(
        nn::ResNetOptions{.classes = 10, .in_channels = 1, .stem = nn::ResNetStem::small});
  }
  model->to(kChannelsLast);
  return model;
}

Batch make_batch(std::int64_t size, const Device& device) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < size; ++i) labels.push_back(i % 10);
  return {randn({size, 1, 28, 28}).contiguous(kChannelsLast).to(device),
          from_vector(labels, {size}).to(device)};
}

int processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Ratio ratio_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return {median(values), (values[n - 1 - n / 4] - values[n / 4]) / 2};
}

InTurns in_turns(const Options& o, const Timed& base, const Timed& other) {
  const auto times = [&](const Timed& f) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(o.seconds * 2 / f(2)));
  };
  const std::int64_t n = times(base), m = times(other);
  std::vector<double> a, b, gain, cost;
  for (int round = 0; round < o.rounds; ++round) {
    const bool first = round % 2 == 0;
    if (first) a.push_back(base(n) / static_cast<double>(n));
    b.push_back(other(m) / static_cast<double>(m));
    if (!first) a.push_back(base(n) / static_cast<double>(n));
    gain.push_back(a.back() / b.back());
    cost.push_back(b.back() / a.back());
  }
  return {median(a), median(b), ratio_of(gain), ratio_of(cost)};
}

}  // namespace ferrite::bench
