// Attention: weighted means of values, with weights from the similarity of queries and keys.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// The options of scaled_dot_product_attention().
struct ScaledDotProductAttentionOptions {
  /// Broadcasts to [..., L, S] (ShapeError). If bool, true means that a query attends to a key; if
  /// float32 or in the query's dtype, it is added to the scaled products, rounded to the query's
  /// dtype; DTypeError for others.
  Tensor attn_mask = {};
  double dropout_p = 0;  ///< probability of dropping a weight; always applied, in training or not
  /// Query i attends only to keys 0 to i. Not together with an attn_mask (ValueError).
  bool is_causal = false;
  std::optional<double> scale = {};  ///< default: 1 / sqrt(E)
  /// Grouped queries: query has a multiple of the heads, dimension -3, of key and value, and each
  /// of theirs serves as many adjacent heads of query (Ainslie et al., "GQA", 2023).
  bool enable_gqa = false;
};

/// softmax(scale * query key^T + mask) value (Vaswani et al. 2017), as
/// torch.nn.functional.scaled_dot_product_attention: query [..., L, E], key [..., S, E] and value
/// [..., S, V] give [..., L, V]; leading dimensions broadcast (ShapeError). All have one floating
/// dtype (DTypeError), which the result has, and one device (DeviceError). ValueError for a
/// dropout_p outside [0, 1].
///
/// A query that attends to no key gives 0. Neither forward nor backward holds the L * S weights
/// (kernels/attention.h), except where attn_mask requires a gradient, and for gradients of
/// gradients.
///
///   Tensor y = scaled_dot_product_attention(q, k, v, {.is_causal = true});  // [N, heads, L, E]
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const ScaledDotProductAttentionOptions& options = {});

namespace detail {

/// The weights, in the query's dtype, of checked arguments; those of a query that attends to no key
/// are NaN. Ops on the tape.
Tensor attention_weights(const Tensor& query, const Tensor& key,
                         const ScaledDotProductAttentionOptions& options);

}  // namespace detail

}  // namespace ferrite
