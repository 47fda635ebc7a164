// Deterministic numbers from a formula shared with tests/golden/recorder.py: weights and images of
// recorded runs need not be stored.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/tensor.h"

namespace ferrite::test {

/// Number i of the random bits that belong to `seed`.
inline std::uint32_t hash32(std::uint32_t seed, std::int64_t i) {
  std::uint32_t x = static_cast<std::uint32_t>(i) + seed * 0x9E3779B9u;
  x = (x ^ x >> 16) * 0x7FEB352Du;
  x = (x ^ x >> 15) * 0x846CA68Bu;
  return x ^ x >> 16;
}

/// float32 numbers in [-k, k), k = sqrt(3 / fan_in): of variance 1 / fan_in.
inline Tensor hash_uniform(const Shape& shape, std::uint32_t seed, std::int64_t fan_in) {
  const auto k = static_cast<float>(std::sqrt(3.0 / static_cast<double>(fan_in)));
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    values.push_back((static_cast<float>(hash32(seed, i) >> 8) * 0x1p-23F - 1) * k);
  return from_vector(values, shape);
}

/// Writes them into `t`, off the tape.
inline void set_uniform(const Tensor& t, std::uint32_t seed, std::int64_t fan_in) {
  no_grad([&] { t.copy_(hash_uniform(t.shape(), seed, fan_in)); });
}

}  // namespace ferrite::test
