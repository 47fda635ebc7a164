// Attention: weighted means of values, the weights from how well queries and keys agree.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"

namespace ferrite {

struct ScaledDotProductAttentionOptions {
  /// Broadcasts to [..., L, S]. bool: which keys a query may look at; of the query's dtype: added
  /// to the products.
  Tensor attn_mask = {};
  double dropout_p = 0;  ///< of the weights; always, in training or not
  /// Query i may look at keys 0 to i alone. Not beside an attn_mask (ValueError).
  bool is_causal = false;
  std::optional<double> scale = {};  ///< 1 / sqrt(E) where it is not given
};

/// softmax(scale * query key^T + mask) value (Vaswani et al. 2017), as
/// torch.nn.functional.scaled_dot_product_attention: query [..., L, E], key [..., S, E], value
/// [..., S, V] give [..., L, V]; leading dimensions broadcast. One floating dtype (DTypeError), one
/// device. A query that may look at no key gives NaN. Composed of ops: the weights are kept for the
/// gradient, L * S numbers each time.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const ScaledDotProductAttentionOptions& options = {});

namespace detail {

/// The weights, of the query's dtype; arguments are as checked by `op`.
Tensor attention_weights(const Tensor& query, const Tensor& key,
                         const ScaledDotProductAttentionOptions& options);

}  // namespace detail

}  // namespace ferrite
