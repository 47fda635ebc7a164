// MultiheadAttention.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ferrite/nn/linear.h"
#include "ferrite/nn/module.h"

namespace ferrite::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  ///< of the weights, while training
  bool bias = true;
  std::optional<std::int64_t> kdim = {}, vdim = {};  ///< sizes of keys and values; else embed_dim
  bool batch_first = false;                          ///< [N, L, *] rather than [L, N, *]
};

/// What a call may add to query, key and value.
struct AttentionArguments {
  /// [N, S]. bool: true for keys that nobody is to look at (the other way round than in
  /// scaled_dot_product_attention); floating: added to the products.
  Tensor key_padding_mask = {};
  bool need_weights = true;
  /// [L, S] or [N * num_heads, L, S]; as above, for each query.
  Tensor attn_mask = {};
  bool average_attn_weights = true;  ///< over the heads
};

struct AttentionOutput {
  Tensor output;   ///< as the query
  Tensor weights;  ///< [N, L, S], or [N, num_heads, L, S]; undefined where not needed
};

/// Attention in `num_heads` parts of the features side by side (Vaswani et al. 2017): query
/// [L, N, embed_dim], key [S, N, kdim] and value [S, N, vdim], or without N.
/// `auto [output, weights] = attention(query, key, value, {.need_weights = false})`; of one input
/// it gives the output alone, of the input's attention to itself. ValueError unless embed_dim can
/// be cut into num_heads equal parts. Names, initial values and results are PyTorch's.
class MultiheadAttention : public Cloneable<MultiheadAttention> {
 public:
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});
  /// Glorot's uniform numbers for the first products, Linear's for the last one; biases 0.
  void reset_parameters();

  Tensor forward(const Tensor& input) override;
  AttentionOutput forward(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionArguments& arguments);
  Tensor operator()(const Tensor& input) { return Cloneable::operator()(input); }
  AttentionOutput operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionArguments& arguments = {}) {
    return Cloneable::operator()(query, key, value, arguments);
  }

  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;

  Tensor in_proj_weight;  ///< [3 * embed_dim, embed_dim]; undefined where kdim or vdim differ:
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;  ///< then these, [embed_dim, *]
  Tensor in_proj_bias;                                 ///< [3 * embed_dim]; undefined without bias
  Linear out_proj;

 private:
  void check(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor heads(const Tensor& x, const Tensor& weight, const Tensor& bias) const;
  Tensor mask(const Tensor& query, const Tensor& key, const AttentionArguments& arguments) const;

  std::int64_t embed_dim_, num_heads_;
  MultiheadAttentionOptions options_;
};

}  // namespace ferrite::nn
