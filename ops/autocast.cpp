#include "ferrite/ops/autocast.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/stream.h"
#include "ferrite/ops/copy.h"

namespace ferrite {

using autograd::AutocastState;

namespace {

// ---- The table

using Policies = std::array<CastPolicy, kAutocastOps>;

constexpr Policies default_policies() {
  Policies table{};
  for (std::size_t i = 0; i < kAutocastOps; ++i)
    table[i] = i < static_cast<std::size_t>(AutocastOp::pow)          ? CastPolicy::lower_precision
               : i < static_cast<std::size_t>(AutocastOp::batch_norm) ? CastPolicy::float32
                                                                      : CastPolicy::promote;
  return table;
}

struct GlobalPolicies {
  std::mutex mutex;
  Policies table = default_policies();
};
GlobalPolicies& global_policies() {
  static GlobalPolicies policies;
  return policies;
}

std::size_t index(AutocastOp op) { return static_cast<std::size_t>(op); }
std::size_t index(DeviceType type) { return static_cast<std::size_t>(type); }

// ---- Cache of converted parameters

class CastCache {
 public:
  Tensor convert(const Tensor& t, DType dtype) {
    const Stream here = current_stream(t.device());
    const std::uint64_t capture = detail::cuda::capture_id(here);
    Entry& entry = entries_[t.impl()];
    if (entry.is_of(t, dtype, capture)) {
      if (!(here == entry.stream)) {
        here.wait(entry.stream);
        entry.cast.storage()->record_stream(here);
      }
      return entry.cast;
    }
    // Values computed outside a graph are stale when the graph runs, and vice versa.
    entry = {.source = t,
             .cast = t.to(dtype),
             .data = t.data_ptr(),
             .version = t.storage()->version(),
             .recorded = grad_enabled(),
             .capture = capture,
             .stream = here};
    return entry.cast;
  }
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    Tensor source;  // kept alive, so that no other tensor reuses its address
    Tensor cast;
    const void* data = nullptr;
    std::uint32_t version = 0;
    bool recorded = false;
    std::uint64_t capture = 0;
    Stream stream = {};

    bool is_of(const Tensor& t, DType dtype, std::uint64_t where) const {
      return cast.defined() && cast.dtype() == dtype && data == t.data_ptr() &&
             version == t.storage()->version() && (recorded || !grad_enabled()) && capture == where;
    }
  };
  std::unordered_map<const TensorImpl*, Entry> entries_;
};

bool has_16_bits(DType dtype) { return dtype == kFloat16 || dtype == kBFloat16; }

// ---- A region

struct Settings {
  std::array<std::optional<DType>, 2> dtypes;  // by DeviceType; unset: off
  bool cache_enabled = true;
  Policies policies;
  bool operator==(const Settings&) const = default;
};

class Region final : public AutocastState {
 public:
  Region(const Settings& settings, std::shared_ptr<CastCache> cache)
      : settings(settings), cache(std::move(cache)) {}
  IntrusivePtr<AutocastState> renewed() const override {
    return make_intrusive<Region>(settings, std::make_shared<CastCache>());
  }
  bool same_settings(const AutocastState& other) const override {
    return settings == static_cast<const Region&>(other).settings;
  }

  std::optional<DType> lower(const Device& device) const {
    return settings.dtypes[index(device.type())];
  }
  bool converts(const Tensor& t) const {
    return t.defined() && is_floating(t.dtype()) && t.dtype() != kFloat64 && lower(t.device());
  }
  Tensor convert(const Tensor& t, DType dtype) const {
    const bool parameter = settings.cache_enabled && t.dtype() == kFloat32 && has_16_bits(dtype) &&
                           t.requires_grad() && t.is_leaf();
    return parameter ? cache->convert(t, dtype) : t.to(dtype);
  }
  /// The target dtype of `t`, a tensor to be converted.
  DType target(CastPolicy policy, const Tensor& t, DType widest) const {
    switch (policy) {
      case CastPolicy::lower_precision:
        return *lower(t.device());
      case CastPolicy::float32:
        return kFloat32;
      case CastPolicy::promote:
        return widest;
      case CastPolicy::unchanged:
        break;
    }
    return t.dtype();
  }

  const Settings settings;
  const std::shared_ptr<CastCache> cache;
};

const Region* region() { return static_cast<const Region*>(autograd::autocast_state()); }

IntrusivePtr<AutocastState> begin(const AutocastOptions& options) {
  FERRITE_CHECK(!options.dtype || has_16_bits(*options.dtype), DTypeError, "autocast",
                "expected float16 or bfloat16, got {}", *options.dtype);
  const Region* outer = region();
  Settings settings;
  if (outer) {
    settings = outer->settings;
  } else {
    GlobalPolicies& global = global_policies();
    std::lock_guard lock(global.mutex);
    settings.policies = global.table;
  }
  settings.cache_enabled = options.cache_enabled.value_or(settings.cache_enabled);
  for (const auto& [op, policy] : options.policy) settings.policies[index(op)] = policy;
  for (DeviceType type : {DeviceType::cpu, DeviceType::cuda}) {
    if (options.device && options.device->type() != type) continue;
    std::optional<DType>& dtype = settings.dtypes[index(type)];
    const DType unset = dtype.value_or(type == DeviceType::cuda ? kFloat16 : kBFloat16);
    dtype = options.enabled ? std::optional(options.dtype.value_or(unset)) : std::nullopt;
  }
  const auto on = [](const auto& dtype) { return dtype.has_value(); };
  if (std::ranges::none_of(settings.dtypes, on)) return nullptr;
  return make_intrusive<Region>(settings, outer ? outer->cache : std::make_shared<CastCache>());
}

}  // namespace

AutocastGuard::AutocastGuard(const AutocastOptions& options)
    : state_(begin(options)),
      outermost_(state_ && !autograd::autocast_state()),
      scope_(state_.get()) {}

AutocastGuard::AutocastGuard(std::nullopt_t)
    : outermost_(false), scope_(autograd::autocast_state()) {}

AutocastGuard::~AutocastGuard() {
  // Functions to be recomputed may still hold the state.
  if (outermost_) static_cast<const Region&>(*state_).cache->clear();
}

bool is_autocast_enabled(const Device& device) { return autocast_dtype(device).has_value(); }

std::optional<DType> autocast_dtype(const Device& device) {
  return region() ? region()->lower(device) : std::nullopt;
}

CastPolicy autocast_policy(AutocastOp op) {
  if (region()) return region()->settings.policies[index(op)];
  GlobalPolicies& global = global_policies();
  std::lock_guard lock(global.mutex);
  return global.table[index(op)];
}

void set_autocast_policy(AutocastOp op, CastPolicy policy) {
  GlobalPolicies& global = global_policies();
  std::lock_guard lock(global.mutex);
  global.table[index(op)] = policy;
}

void clear_autocast_cache() {
  if (region()) region()->cache->clear();
}

namespace ops {

bool detail::convert(AutocastRule rule, std::span<Tensor> arguments) {
  const Region& here = *region();
  const CastPolicy policy = rule.policy();
  if (policy == CastPolicy::unchanged) return false;
  std::optional<DType> widest;
  for (const Tensor& t : arguments)
    if (here.converts(t)) widest = widest ? promote(*widest, t.dtype()) : t.dtype();
  if (!widest) return false;
  bool any = false;
  for (Tensor& t : arguments) {
    if (!here.converts(t)) continue;
    const DType dtype = here.target(policy, t, *widest);
    if (t.dtype() == dtype) continue;
    t = here.convert(t, dtype);
    any = true;
  }
  return any;
}

std::optional<DType> autocast_target(AutocastRule rule, const Tensor& argument) {
  if (!detail::autocasting() || !region()->converts(argument)) return {};
  const DType dtype = region()->target(rule.policy(), argument, argument.dtype());
  return dtype == argument.dtype() ? std::nullopt : std::optional(dtype);
}

}  // namespace ops

}  // namespace ferrite
