// The networks' images, made by a formula that torch_training.py has too: a pattern for each class,
// and noise; something to learn, without reading a file. Shared by the programs of both frameworks,
// so C++17 without either.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct Task {
  std::string name;
  std::int64_t channels, size, classes;

  std::int64_t pixels() const { return channels * size * size; }
};

/// "lenet5", "d2l", "resnet18-28", "resnet18-32" and "resnet18-224". ResNet-18 is of the form for
/// small images but for the last.
inline const std::vector<Task>& tasks() {
  static const std::vector<Task> all = {{"lenet5", 1, 28, 10},
                                        {"d2l", 1, 28, 10},
                                        {"resnet18-28", 1, 28, 10},
                                        {"resnet18-32", 3, 32, 10},
                                        {"resnet18-224", 3, 224, 1000}};
  return all;
}

/// Null where there is none.
inline const Task* find_task(const std::string& name) {
  const auto found =
      std::find_if(tasks().begin(), tasks().end(), [&](const Task& t) { return t.name == name; });
  return found == tasks().end() ? nullptr : &*found;
}

/// Number i of the random bits that belong to `seed` (the finalizer lowbias32 of C. Wellons).
inline std::uint32_t hash32(std::uint32_t seed, std::int64_t i) {
  std::uint32_t x = static_cast<std::uint32_t>(i) + seed * 0x9E3779B9u;
  x = (x ^ x >> 16) * 0x7FEB352Du;
  x = (x ^ x >> 15) * 0x846CA68Bu;
  return x ^ x >> 16;
}

/// The label of image n of batch `number`; its task.pixels() values go to `out`.
inline std::int64_t make_image(const Task& task, std::int64_t number, std::int64_t n, float* out) {
  const auto seed = static_cast<std::uint32_t>(number);
  const std::int64_t pixels = task.pixels(), label = hash32(1000 + seed, n) % task.classes;
  for (std::int64_t p = 0; p < pixels; ++p) {
    const std::uint32_t pattern = hash32(100'000 + static_cast<std::uint32_t>(label), p) >> 8,
                        noise = hash32(2000 + seed, n * pixels + p) >> 8;
    out[p] = static_cast<float>((pattern + noise) * 0x1p-23 - 2);
  }
  return label;
}

}  // namespace bench
