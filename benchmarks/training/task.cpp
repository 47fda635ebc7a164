#include "benchmarks/training/task.h"

#include <algorithm>

#include "core/error.h"
#include "core/generator.h"
#include "core/parallel_for.h"
#include "nn/models/lenet.h"
#include "nn/models/resnet.h"

namespace ferrite::bench {

namespace {

/// Number i of the random bits that belong to `seed` (the finalizer lowbias32 of C. Wellons).
std::uint32_t hash32(std::uint32_t seed, std::int64_t i) {
  std::uint32_t x = static_cast<std::uint32_t>(i) + seed * 0x9E3779B9u;
  x = (x ^ x >> 16) * 0x7FEB352Du;
  x = (x ^ x >> 15) * 0x846CA68Bu;
  return x ^ x >> 16;
}

}  // namespace

const std::vector<Task>& tasks() {
  static const std::vector<Task> all = {
      {.name = "lenet5", .channels = 1, .size = 28, .classes = 10},
      {.name = "d2l", .channels = 1, .size = 28, .classes = 10},
      {.name = "resnet18-28", .channels = 1, .size = 28, .classes = 10},
      {.name = "resnet18-32", .channels = 3, .size = 32, .classes = 10},
      {.name = "resnet18-224", .channels = 3, .size = 224, .classes = 1000},
  };
  return all;
}

const Task& task(const std::string& name) {
  const auto found = std::ranges::find(tasks(), name, &Task::name);
  FERRITE_CHECK(found != tasks().end(), ValueError, "bench_training", "no model '{}'", name);
  return *found;
}

std::unique_ptr<nn::Module> make_model(const Task& task, bool checkpoint) {
  manual_seed(0);
  if (task.name == "lenet5") return std::make_unique<nn::LeNet5>();
  if (task.name == "d2l") return std::make_unique<nn::D2LLeNet>();
  return std::make_unique<nn::ResNet18>(
      nn::ResNetOptions{.classes = task.classes,
                        .in_channels = task.channels,
                        .stem = task.size > 100 ? nn::ResNetStem::standard : nn::ResNetStem::small,
                        .checkpoint_blocks = checkpoint});
}

Batch make_batch(const Task& task, std::int64_t number, std::int64_t size) {
  const auto seed = static_cast<std::uint32_t>(number);
  const std::int64_t pixels = task.channels * task.size * task.size;
  std::vector<std::int64_t> labels(static_cast<std::size_t>(size));
  std::vector<float> values(static_cast<std::size_t>(size * pixels));
  parallel_for(size, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t label = hash32(1000 + seed, n) % task.classes;
      labels[static_cast<std::size_t>(n)] = label;
      for (std::int64_t p = 0; p < pixels; ++p) {
        const std::uint32_t pattern = hash32(100'000 + static_cast<std::uint32_t>(label), p) >> 8,
                            noise = hash32(2000 + seed, n * pixels + p) >> 8;
        values[static_cast<std::size_t>(n * pixels + p)] =
            static_cast<float>((pattern + noise) * 0x1p-23 - 2);
      }
    }
  });
  return {from_vector(values, {size, task.channels, task.size, task.size}),
          from_vector(labels, {size})};
}

}  // namespace ferrite::bench
