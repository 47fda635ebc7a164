// Autocast: regions in which operations choose the dtype they compute in (torch.amp.autocast).
//
//   {
//     AutocastGuard autocast;                     // or ({.dtype = kBFloat16})
//     loss = cross_entropy(model(x), y);          // products in 16 bits, the loss in float32
//   }
//   scaler.scale(loss).backward();                // in the dtypes that forward chose
//
// Parameters stay float32, and so do their gradients: conversions are recorded on the tape. How the
// arguments are converted depends only on the operation, by a table of policies
// (docs/mixed_precision.md) that can be changed per region or globally. Only floating tensors below
// float64 are converted, and in-place operations never convert. A region belongs to one thread;
// backward runs with autocast off, and autograd::checkpoint recomputes with the original state.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ferrite/autograd/autocast.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// Operations that have a policy; variants share it (conv: conv1d, conv2d, conv2d_relu ...).
enum class AutocastOp : std::uint8_t {
  // lower_precision
  conv,
  conv_transpose,
  linear,
  matmul,  ///< and mm, bmm, mv, scaled_dot_product_attention
  addmm,
  // float32
  pow,
  exp,         ///< and exp2, expm1
  log,         ///< and log2, log1p
  reciprocal,  ///< and a number divided by a tensor
  rsqrt,
  tan,
  softplus,
  sum,
  prod,
  cumsum,
  norm,
  softmax,
  log_softmax,
  layer_norm,
  group_norm,
  cross_entropy,
  nll_loss,
  mse_loss,
  l1_loss,
  smooth_l1_loss,
  huber_loss,
  binary_cross_entropy,
  binary_cross_entropy_with_logits,
  kl_div,
  // promote
  batch_norm,  ///< applies to the input and the residual; weights and statistics stay float32
  dot,
  cat,
  stack,
  where,
  scatter,  ///< and scatter_add, index_add
};
/// The number of operations that have a policy.
inline constexpr std::size_t kAutocastOps = static_cast<std::size_t>(AutocastOp::scatter) + 1;

/// What happens to an operation's arguments.
enum class CastPolicy : std::uint8_t {
  unchanged,
  lower_precision,  ///< the region's dtype
  float32,
  promote,  ///< the widest dtype among them
};

/// The options of AutocastGuard and autocast().
struct AutocastOptions {
  /// Tensors on devices of this type; unset: on all.
  std::optional<Device> device = {};
  /// float16 or bfloat16 (DTypeError). Unset: that of the enclosing region, else float16 on CUDA
  /// devices and bfloat16 on the CPU.
  std::optional<DType> dtype = {};
  /// false: a region in which autocast is off.
  bool enabled = true;
  /// Whether the converted copy of a parameter (a float32 leaf that requires a gradient) is kept
  /// for its next use, until the outermost region ends. A changed parameter is converted again.
  /// Unset: as in the enclosing region, else true.
  std::optional<bool> cache_enabled = {};
  /// Policies in this region that differ from the enclosing one.
  std::vector<std::pair<AutocastOp, CastPolicy>> policy = {};
};

/// Autocast from here to the end of the scope: each operation computes in 16 bits or in float32, by
/// its kind. `amp::autocast` is the same class.
///
///   AutocastGuard autocast({.dtype = kBFloat16});
///   Tensor loss = cross_entropy(model(images), labels);
class AutocastGuard {
 public:
  explicit AutocastGuard(const AutocastOptions& options = {});
  /// A guard that changes nothing.
  explicit AutocastGuard(std::nullopt_t);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  IntrusivePtr<autograd::AutocastState> state_;
  bool outermost_;
  autograd::AutocastScope scope_;
};

/// Calls `body` in a region.
template <class F>
decltype(auto) autocast(const AutocastOptions& options, F&& body) {
  AutocastGuard guard(options);
  return std::forward<F>(body)();
}

/// Whether tensors on devices of this type are converted here.
bool is_autocast_enabled(const Device& device);
/// Their target dtype; unset if autocast is off.
std::optional<DType> autocast_dtype(const Device& device);
/// In the current region, or the default outside.
CastPolicy autocast_policy(AutocastOp op);
/// For regions that begin from now on, in all threads.
void set_autocast_policy(AutocastOp op, CastPolicy policy);
/// Releases the converted parameters of this thread's region.
void clear_autocast_cache();

// ---- For operations, including user-defined ones
namespace ops {

/// The key for looking up a policy, or a policy itself.
class AutocastRule {
 public:
  AutocastRule(AutocastOp op) : op_(op) {}
  AutocastRule(CastPolicy policy) : policy_(policy) {}
  /// What happens to the arguments of the operation in this region.
  CastPolicy policy() const { return op_ ? autocast_policy(*op_) : policy_; }

 private:
  std::optional<AutocastOp> op_;
  CastPolicy policy_ = CastPolicy::unchanged;
};

namespace detail {
inline bool autocasting() { return autograd::autocast_state() != nullptr; }
/// Converts arguments as the rule requires, in a region; returns whether any was converted.
bool convert(AutocastRule rule, std::span<Tensor> arguments);
}  // namespace detail

/// The arguments converted as this thread's region requires (undefined ones stay so), or nothing if
/// none needs a conversion. Used at the beginning of an operation:
///   if (const auto cast = ops::autocast(AutocastOp::linear, input, weight, bias)) {
///     const auto& [x, w, b] = *cast;
///     return linear(x, w, b);
///   }
template <class... Tensors>
requires(sizeof...(Tensors) > 1) std::optional<std::array<Tensor, sizeof...(Tensors)>> autocast(
    AutocastRule rule, const Tensors&... arguments) {
  if (!detail::autocasting()) [[likely]]
    return {};
  std::array<Tensor, sizeof...(Tensors)> cast{arguments...};
  if (!detail::convert(rule, cast)) return {};
  return cast;
}
/// The arguments as this thread's region wants them; nothing if they stay as they are.
inline std::optional<Tensor> autocast(AutocastRule rule, const Tensor& argument) {
  if (!detail::autocasting()) [[likely]]
    return {};
  Tensor cast = argument;
  if (!detail::convert(rule, {&cast, 1})) return {};
  return cast;
}
inline std::optional<std::vector<Tensor>> autocast(AutocastRule rule,
                                                   std::span<const Tensor> arguments) {
  if (!detail::autocasting()) [[likely]]
    return {};
  std::vector<Tensor> cast(arguments.begin(), arguments.end());
  if (!detail::convert(rule, cast)) return {};
  return cast;
}

/// The dtype that `argument` must be converted to, if any; for operations that convert while
/// reading.
std::optional<DType> autocast_target(AutocastRule rule, const Tensor& argument);

}  // namespace ops

}  // namespace ferrite
