// Autocast: regions in which operations choose the dtype they compute in (torch.amp.autocast).
//
//   {
//     AutocastGuard autocast;                     // or ({.dtype = kBFloat16})
//     loss = cross_entropy(model(x), y);          // products in 16 bits, the loss in float32
//   }
//   scaler.scale(loss).backward();                // in the dtypes that forward chose
//
// Parameters stay float32, and so do their gradients: conversions are operations on the tape. What
// becomes of the arguments is a matter of the operation alone, by a table of policies
// (docs/mixed_precision.md) that a region, or everything, may change. Only floating tensors of less
// than float64 are converted, and operations in place never convert. A region is one of a thread;
// backward runs with autocast off, and autograd::checkpoint computes again as it did first.
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

/// Operations that have a policy, the forms of one with it (conv: conv1d, conv2d, conv2d_relu ...).
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
  batch_norm,  ///< of the input and the residual; weights and statistics stay float32
  dot,
  cat,
  stack,
  where,
  scatter,  ///< and scatter_add, index_add
};
inline constexpr std::size_t kAutocastOps = static_cast<std::size_t>(AutocastOp::scatter) + 1;

/// What becomes of an operation's arguments.
enum class CastPolicy : std::uint8_t {
  unchanged,
  lower_precision,  ///< the region's dtype
  float32,
  promote,  ///< the widest dtype among them
};

struct AutocastOptions {
  /// Tensors on devices of this kind; unset: on all.
  std::optional<Device> device = {};
  /// float16 or bfloat16 (DTypeError). Unset: that of the region around this one, else float16 on
  /// CUDA devices and bfloat16 on the CPU.
  std::optional<DType> dtype = {};
  /// Else a region in which autocast is off.
  bool enabled = true;
  /// Whether the conversion of a parameter (a float32 leaf that requires a gradient) is kept for
  /// its next use, until the outermost region ends. A parameter that was changed is converted anew.
  /// Unset: as in the region around this one, else true.
  std::optional<bool> cache_enabled = {};
  /// Policies in this region that differ from those around it.
  std::vector<std::pair<AutocastOp, CastPolicy>> policy = {};
};

/// A region, from here to the end of the scope.
class AutocastGuard {
 public:
  explicit AutocastGuard(const AutocastOptions& options = {});
  /// A guard that leaves everything as it is.
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

/// Whether tensors on devices of this kind are converted here.
bool is_autocast_enabled(const Device& device);
/// To what; unset where autocast is off.
std::optional<DType> autocast_dtype(const Device& device);
/// Here, or where regions begin.
CastPolicy autocast_policy(AutocastOp op);
/// For regions that begin from now on, in all threads.
void set_autocast_policy(AutocastOp op, CastPolicy policy);
/// Lets go of the converted parameters of this thread's region.
void clear_autocast_cache();

// ---- For operations, also those of users
namespace ops {

/// What a policy is looked up by, or one itself.
class AutocastRule {
 public:
  AutocastRule(AutocastOp op) : op_(op) {}
  AutocastRule(CastPolicy policy) : policy_(policy) {}
  CastPolicy policy() const { return op_ ? autocast_policy(*op_) : policy_; }

 private:
  std::optional<AutocastOp> op_;
  CastPolicy policy_ = CastPolicy::unchanged;
};

namespace detail {
inline bool autocasting() { return autograd::autocast_state() != nullptr; }
/// Converts what the rule wants otherwise, in a region; whether there was any.
bool convert(AutocastRule rule, std::span<Tensor> arguments);
}  // namespace detail

/// The arguments as this thread's region wants them, undefined ones among them left so; nothing
/// where they may stay. The first lines of an operation:
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

/// The dtype that `argument` is to be converted to, where it is; for operations that convert as
/// they read.
std::optional<DType> autocast_target(AutocastRule rule, const Tensor& argument);

}  // namespace ops

}  // namespace ferrite
