#include "ferrite/core/generator.h"

#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <numeric>
#include <utility>

#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/generator_scope.h"
#include "ferrite/core/generator_state.h"

namespace ferrite {

namespace {

thread_local GeneratorScope* innermost = nullptr;

PhiloxState taken_from(PhiloxState& state, std::uint64_t blocks) {
  const PhiloxState taken = state;
  state.offset += blocks;
  return taken;
}

}  // namespace

GeneratorScope::GeneratorScope(const Generator& generator, const PhiloxState& state)
    : generator_(&generator), state_(state), outer_(std::exchange(innermost, this)) {}

GeneratorScope::~GeneratorScope() { innermost = outer_; }

PhiloxState* GeneratorScope::find(const Generator& generator) {
  for (GeneratorScope* scope = innermost; scope; scope = scope->outer_)
    if (scope->generator_ == &generator) return &scope->state_;
  return nullptr;
}

Generator& Generator::operator=(const Generator& other) {
  if (this != &other) set_state(other.state());
  return *this;
}

void Generator::manual_seed(std::uint64_t seed) { set_state({seed, 0}); }

PhiloxState Generator::state() const {
  if (const PhiloxState* const own = GeneratorScope::find(*this)) return *own;
  std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(PhiloxState state) {
  if (PhiloxState* const own = GeneratorScope::find(*this)) {
    *own = state;
    return;
  }
  std::lock_guard lock(mutex_);
  state_ = state;
}

PhiloxState Generator::reserve(std::uint64_t blocks) {
  if (PhiloxState* const own = GeneratorScope::find(*this)) return taken_from(*own, blocks);
  std::lock_guard lock(mutex_);
  return taken_from(state_, blocks);
}

PhiloxState Generator::reserve(std::uint64_t blocks, const Stream& stream) {
  if (stream.device().is_cuda())
    if (const auto captured = detail::cuda::captured_draw(stream, *this, blocks)) return *captured;
  return reserve(blocks);
}

namespace {

std::uint64_t u64_at(const PhiloxState& s) {
  const PhiloxBlock block = philox(s.seed, s.offset);
  return static_cast<std::uint64_t>(block.v[0]) << 32 | block.v[1];
}

/// Uniform in 0..bound-1, from the first word returned by `draw` that is not rejected.
template <class Draw>
std::uint64_t below(std::uint64_t bound, Draw&& draw) {
  __extension__ using Wide = unsigned __int128;
  for (;;) {
    const Wide product = static_cast<Wide>(draw()) * bound;
    const auto low = static_cast<std::uint64_t>(product);
    if (low >= bound || low >= -bound % bound) return static_cast<std::uint64_t>(product >> 64);
  }
}

}  // namespace

std::uint64_t Generator::next_u64() { return u64_at(reserve(1)); }

std::uint64_t Generator::next_below(std::uint64_t bound) {
  FERRITE_CHECK(bound > 0, ValueError, "next_below", "the bound must be above 0");
  return below(bound, [this] { return next_u64(); });
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
  if (n < 2) return order;
  // One reservation covers all draws, except for a rejected word, which occurs about once in 2^40
  // permutations.
  PhiloxState next = reserve(static_cast<std::uint64_t>(n - 1));
  std::uint64_t left = static_cast<std::uint64_t>(n - 1);
  // Some at a time: words come from vector instructions, and places from memory while others do.
  constexpr std::uint64_t kSome = 64;
  std::uint64_t words[kSome], used = kSome;
  const auto draw = [&] {
    if (used == kSome) {
      if (left == 0) return next_u64();
      const std::uint64_t count = std::min(left, kSome);
      used = kSome - count;
      for (std::uint64_t k = 0; k < count; ++k)
        words[used + k] = u64_at({next.seed, next.offset + k});
      next.offset += count;
      left -= count;
    }
    return words[used++];
  };
  std::size_t places[kSome];
  for (std::size_t i = order.size(); i > 1;) {
    const std::size_t count = std::min<std::size_t>(i - 1, kSome);
    for (std::size_t k = 0; k < count; ++k) {
      places[k] = below(i - k, draw);
      __builtin_prefetch(&order[places[k]], 1);
    }
    for (std::size_t k = 0; k < count; ++k, --i) std::swap(order[i - 1], order[places[k]]);
  }
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

// ---- Checkpoints

namespace {

using DeviceKey = std::pair<DeviceType, int>;

std::string name_of(const DeviceKey& key) {
  const std::string type = key.first == DeviceType::cuda ? "cuda" : "cpu";
  return key.second < 0 ? type : fmt::format("{}:{}", type, key.second);
}

/// The inverse, for devices that may not exist here.
DeviceKey device_named(std::string_view name) {
  const std::size_t colon = name.find(':');
  const std::string_view type = name.substr(0, colon);
  int index = -1;
  bool good = type == "cpu" || (type == "cuda" && colon != std::string_view::npos);
  if (good && colon != std::string_view::npos) {
    const std::string_view digits = name.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    good = error == std::errc() && end == digits.data() + digits.size() && index >= 0 &&
           index <= Device::kMaxIndex;
  }
  FERRITE_CHECK(good, ValueError, "load_generator_state_dict",
                "expected the name of a device, got '{}'", name);
  return {type == "cuda" ? DeviceType::cuda : DeviceType::cpu, index};
}

std::vector<std::int64_t> numbers(const Tensor& t, std::string_view name, std::int64_t count) {
  FERRITE_CHECK(t.dtype() == kInt64 && t.numel() == count, ValueError, "load_generator_state_dict",
                "'{}': expected {} int64 numbers, got {}", name, count, t.describe());
  return t.to_vector<std::int64_t>();
}

constexpr const char* kSeed = "seed";

}  // namespace

StateDict generator_state_dict() {
  Generators& all = generators();
  std::lock_guard lock(all.mutex);
  StateDict dict{{kSeed, from_vector<std::int64_t>({static_cast<std::int64_t>(all.seed)}, {})}};
  for (const auto& [device, generator] : all.by_device) {
    const PhiloxState state = generator->state();
    dict.insert(
        name_of(device),
        from_vector<std::int64_t>(
            {static_cast<std::int64_t>(state.seed), static_cast<std::int64_t>(state.offset)}, {2}));
  }
  return dict;
}

void load_generator_state_dict(const StateDict& state) {
  std::map<DeviceKey, PhiloxState> loaded;
  for (const auto& [name, tensor] : state) {
    if (name == kSeed) continue;
    const std::vector<std::int64_t> v = numbers(tensor, name, 2);
    loaded[device_named(name)] = {static_cast<std::uint64_t>(v[0]),
                                  static_cast<std::uint64_t>(v[1])};
  }
  FERRITE_CHECK(state.contains(kSeed), ValueError, "load_generator_state_dict",
                "expected the entry '{}'", kSeed);
  const auto seed = static_cast<std::uint64_t>(numbers(state.at(kSeed), kSeed, 1)[0]);

  Generators& all = generators();
  std::lock_guard lock(all.mutex);
  all.seed = seed;
  for (auto& [device, generator] : all.by_device)
    if (!loaded.contains(device)) generator->manual_seed(seed);
  for (const auto& [device, philox] : loaded) {
    auto& slot = all.by_device[device];
    if (!slot) slot = std::make_unique<Generator>(seed);
    slot->set_state(philox);
  }
}

}  // namespace ferrite
