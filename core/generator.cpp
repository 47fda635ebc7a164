#include "core/generator.h"

#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <numeric>
#include <utility>

#include "core/cuda_backend.h"
#include "core/error.h"

namespace ferrite {

Generator& Generator::operator=(const Generator& other) {
  if (this != &other) set_state(other.state());
  return *this;
}

void Generator::manual_seed(std::uint64_t seed) { set_state({seed, 0}); }

PhiloxState Generator::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(PhiloxState state) {
  std::lock_guard lock(mutex_);
  state_ = state;
}

PhiloxState Generator::reserve(std::uint64_t blocks) {
  std::lock_guard lock(mutex_);
  const PhiloxState taken = state_;
  state_.offset += blocks;
  return taken;
}

PhiloxState Generator::reserve(std::uint64_t blocks, const Stream& stream) {
  if (stream.device().is_cuda())
    if (const auto captured = detail::cuda::captured_draw(stream, *this, blocks)) return *captured;
  return reserve(blocks);
}

std::uint64_t Generator::next_u64() {
  const PhiloxState s = reserve(1);
  const PhiloxBlock block = philox(s.seed, s.offset);
  return static_cast<std::uint64_t>(block.v[0]) << 32 | block.v[1];
}

std::uint64_t Generator::next_below(std::uint64_t bound) {
  FERRITE_CHECK(bound > 0, ValueError, "next_below", "the bound must be above 0");
  __extension__ using Wide = unsigned __int128;
  for (;;) {
    const Wide product = static_cast<Wide>(next_u64()) * bound;
    const auto low = static_cast<std::uint64_t>(product);
    if (low >= bound || low >= -bound % bound) return static_cast<std::uint64_t>(product >> 64);
  }
}

double Generator::next_double() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }

double Generator::next_normal() {
  const PhiloxState s = reserve(1);
  const PhiloxBlock b = philox(s.seed, s.offset);
  const double u = 1.0 - philox_uniform(b.v[0], b.v[1]);  // (0, 1]: its logarithm is finite
  return std::sqrt(-2 * std::log(u)) *
         std::cos(2 * std::numbers::pi * philox_uniform(b.v[2], b.v[3]));
}

std::vector<std::int64_t> Generator::permutation(std::int64_t n) {
  FERRITE_CHECK(n >= 0, ValueError, "permutation", "expected a length of 0 or more, got {}", n);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next_below(i)]);
  return order;
}

namespace {

struct Generators {
  std::mutex mutex;
  std::uint64_t seed = Generator::kDefaultSeed;
  std::map<std::pair<DeviceType, int>, std::unique_ptr<Generator>> by_device;
};

Generators& generators() {
  static Generators& instance = *new Generators;  // never destroyed: queued work may still draw
  return instance;
}

}  // namespace

Generator& default_generator(const Device& device) {
  Generators& all = generators();
  std::lock_guard lock(all.mutex);
  auto& slot = all.by_device[{device.type(), device.index()}];
  if (!slot) slot = std::make_unique<Generator>(all.seed);
  return *slot;
}

void manual_seed(std::uint64_t seed) {
  Generators& all = generators();
  std::lock_guard lock(all.mutex);
  all.seed = seed;
  for (auto& [device, generator] : all.by_device) generator->manual_seed(seed);
}

}  // namespace ferrite
