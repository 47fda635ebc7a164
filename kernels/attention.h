// Scaled dot-product attention without the L x S weights in memory: blocks of keys pass by, and a
// running maximum and sum per query make the softmax (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018; Dao, "FlashAttention-2", 2023). The gradient computes the weights
// again, from the logarithm of that sum.
#pragma once

#include <cmath>

#include "ferrite/core/generator.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// The operands. query [B, H, L, E], key [B, G, S, E] and value [B, G, S, V] share a floating dtype
/// and are contiguous in their last dimension, with any other strides; query head h belongs to the
/// key head h / (H / G). All sizes are 1 or more.
struct AttentionOperands {
  View query, key, value;
  View mask;  ///< [B, H, L, S] of any strides, bool or of that dtype; or no data
  double scale = 1;
  bool causal = false;  ///< query i attends to keys 0 to i
  double dropout = 0;   ///< below 1; the weight of a key that is kept is divided by 1 - dropout
  PhiloxState state = {};
};

/// Words of the Philox stream between two queries: weight (b, h, l, s) draws word
/// ((b * H + h) * L + l) * attention_word_step(S) + s.
constexpr std::int64_t attention_word_step(std::int64_t keys) { return (keys + 3) / 4 * 4; }

/// A word below this drops its weight.
inline std::uint32_t attention_drop_below(double dropout) {
  return static_cast<std::uint32_t>(std::fmin(std::ldexp(dropout, 32), 4294967295.0));
}

/// out [B, H, L, V], contiguous in its last dimension. lse [B, H, L], contiguous, of the type that
/// sums are made in: the logarithm of each query's sum of exponentials, 0 for a query without keys,
/// whose result is 0.
FERRITE_KERNEL_OF("scaled_dot_product_attention", attention, const AttentionOperands& operands,
                  const View& out, const View& lse);

/// The gradients of those operands whose views have data, contiguous in their last dimensions.
struct AttentionGradients {
  View query, key, value;
};
/// From grad_out, of the shape of `out` and contiguous in its last dimension, and the results of
/// attention() for the same operands.
FERRITE_KERNEL_OF("scaled_dot_product_attention", attention_backward,
                  const AttentionOperands& operands, const AttentionGradients& gradients,
                  const View& grad_out, const View& out, const View& lse);

}  // namespace ferrite::kernels
