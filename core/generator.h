// Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random
// Numbers: As Easy as 1, 2, 3", SC 2011).
//
// The i-th block of four numbers is a pure function of (seed, i): any thread of any device can
// compute its own, and the same seed gives the same numbers everywhere.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/core/host_device.h"

namespace ferrite {

class Stream;

/// Four random numbers.
struct PhiloxBlock {
  std::uint32_t v[4];  ///< the numbers
};

/// Four random words for block `counter` of the stream `seed`.
FERRITE_HOST_DEVICE inline PhiloxBlock philox(std::uint64_t seed, std::uint64_t counter) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter),
                c1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t c2 = 0, c3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0, p1 = std::uint64_t{0xCD9E8D57u} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1), c3 = static_cast<std::uint32_t>(p0);
    c0 = n0, c2 = n2;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// A word as a float in [0, 1): its upper 24 bits.
FERRITE_HOST_DEVICE inline float philox_uniform(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}
/// Two words as a double in [0, 1): 53 bits.
FERRITE_HOST_DEVICE inline double philox_uniform(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (static_cast<std::uint64_t>(high) << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

/// The state a kernel draws from: it uses the blocks from `offset` on.
struct PhiloxState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  ///< the position in the sequence
  /// For draws inside a CUDA graph: device memory that holds, at each replay, the seed and the
  /// value to add to `offset`. Null otherwise.
  const PhiloxState* base = nullptr;

  /// The state to draw with, on the device.
  FERRITE_HOST_DEVICE PhiloxState resolved() const {
    return base ? PhiloxState{base->seed, base->offset + offset} : *this;
  }
};

/// A stream of random numbers; thread-safe.
class Generator {
 public:
  /// The seed if none was set: that of torch.Generator().
  static constexpr std::uint64_t kDefaultSeed = 67280421310721;

  explicit Generator(std::uint64_t seed = kDefaultSeed) : state_{seed, 0} {}
  Generator(const Generator& other) : state_(other.state()) {}
  Generator& operator=(const Generator& other);

  /// The numbers begin anew from this seed.
  void manual_seed(std::uint64_t seed);
  std::uint64_t seed() const { return state().seed; }
  /// Seed and position, to continue from.
  PhiloxState state() const;
  /// Sets seed and position, to continue from a state().
  void set_state(PhiloxState state);

  /// Reserves the next `blocks` blocks of four numbers for a kernel.
  PhiloxState reserve(std::uint64_t blocks);
  /// As above, for a kernel on `stream`. If the stream is being captured by a cuda::Graph, the
  /// graph keeps a pointer to this generator, and the blocks are reserved at each replay instead of
  /// now.
  PhiloxState reserve(std::uint64_t blocks, const Stream& stream);

  // Host-side draws, one block each.
  /// The next 64 random bits.
  std::uint64_t next_u64();
  /// Uniform in [0, bound), without bias (Lemire, "Fast Random Integer Generation in an Interval",
  /// 2019). `bound` must be above 0 (ValueError).
  std::uint64_t next_below(std::uint64_t bound);
  double next_double();  ///< [0, 1)
  double next_normal();  ///< mean 0, deviation 1 (Box-Muller)
  /// The numbers from 0 to n - 1 in random order.
  std::vector<std::int64_t> permutation(std::int64_t n);

 private:
  mutable std::mutex mutex_;
  PhiloxState state_;
};

/// The generator used by ops on `device` that are not given one. Without manual_seed() it begins at
/// kDefaultSeed in every run and process, where PyTorch's begin at a random seed.
Generator& default_generator(const Device& device);
/// Seeds the generators of all devices, including those not used yet.
void manual_seed(std::uint64_t seed);

}  // namespace ferrite
