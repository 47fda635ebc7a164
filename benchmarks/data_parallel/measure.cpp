#include "ferrite/benchmarks/data_parallel/measure.h"

#include <sched.h>
#include <time.h>

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

Took time_of(const std::function<void()>& f) {
  const auto cpu = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double cpu_start = cpu();
  const auto start = std::chrono::steady_clock::now();
  f();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  return {wall.count(), cpu() - cpu_start};
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
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(o.seconds * 2 / f(2).wall));
  };
  const std::int64_t n = times(base), m = times(other);
  const auto take = [](const Timed& f, std::int64_t count, std::vector<Took>& all) {
    const Took took = f(count);
    const auto c = static_cast<double>(count);
    all.push_back({took.wall / c, took.cpu / c});
  };
  std::vector<Took> a, b;
  for (int round = 0; round < o.rounds; ++round) {
    const bool first = round % 2 == 0;
    if (first) take(base, n, a);
    take(other, m, b);
    if (!first) take(base, n, a);
  }
  std::vector<double> base_s, other_s, gain, cost, work;
  for (std::size_t i = 0; i < a.size(); ++i) {
    base_s.push_back(a[i].wall);
    other_s.push_back(b[i].wall);
    gain.push_back(a[i].wall / b[i].wall);
    cost.push_back(b[i].wall / a[i].wall);
    work.push_back(b[i].cpu / a[i].cpu);
  }
  return {median(base_s), median(other_s), ratio_of(gain), ratio_of(cost), ratio_of(work)};
}

}  // namespace ferrite::bench
