// MultiheadAttention.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <tuple>

#include "ferrite/core/named_tuple.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/module.h"

namespace ferrite::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  ///< probability of dropping an attention weight, in training
  bool bias = true;
  bool add_bias_kv = false;    ///< appends a learned key and value, bias_k and bias_v
  bool add_zero_attn = false;  ///< appends a key and a value of zeros
  /// The size of keys, if it differs from embed_dim.
  std::optional<std::int64_t> kdim = {},
                              vdim = {};  ///< features of keys and values; default: embed_dim
  bool batch_first = false;               ///< [N, L, *] rather than [L, N, *]
};

/// The optional arguments of a call.
struct AttentionArguments {
  /// [N, S]. If bool, true marks keys to ignore (the opposite of scaled_dot_product_attention); if
  /// floating, it is added to the products.
  Tensor key_padding_mask = {};
  /// Whether the weights of the attention are returned.
  bool need_weights = true;
  /// [L, S] or [N * num_heads, L, S]; the same for each query.
  Tensor attn_mask = {};
  bool average_attn_weights = true;  ///< averages the weights over the heads
  /// Says that attn_mask, which must be given, is that of causal attention, whose weights above the
  /// diagonal need not be computed.
  bool is_causal = false;
};

/// A NamedTuple (core/named_tuple.h).
struct AttentionOutput {
  Tensor output;   ///< of the query's shape
  Tensor weights;  ///< [N, L, S], or [N, num_heads, L, S]; undefined unless need_weights
  /// The parts, for structured bindings.
  auto fields() { return std::tie(output, weights); }
  /// The parts, for structured bindings.
  auto fields() const { return std::tie(output, weights); }
  operator std::tuple<Tensor&, Tensor&>() && { return fields(); }
  operator std::tuple<Tensor, Tensor>() const { return fields(); }
};

/// Multi-head attention (Vaswani et al. 2017) of query [L, N, embed_dim], key [S, N, kdim] and
/// value [S, N, vdim]; N may be absent. `auto [output, weights] = attention(query, key, value,
/// {.need_weights = false})`, which keeps no L x S numbers in memory. With one input it computes
/// self-attention and returns only the output. ValueError unless num_heads divides embed_dim;
/// ShapeError for inputs or masks of other shapes. Names, initial values and results are those of
/// PyTorch.
class MultiheadAttention : public Cloneable<MultiheadAttention> {
 public:
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});
  /// Draws the input projections by init::xavier_uniform_ and out_proj as Linear does; sets biases
  /// to 0.
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

  Tensor in_proj_weight;  ///< [3 * embed_dim, embed_dim]; undefined if kdim or vdim differ:
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;  ///< then these, [embed_dim, *]
  Tensor in_proj_bias;                                 ///< [3 * embed_dim]; undefined without bias
  Tensor bias_k, bias_v;                               ///< [1, 1, embed_dim]; with add_bias_kv
  /// The linear layer behind the heads.
  Linear out_proj;

 private:
  void check(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor heads(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& appended,
               bool sources) const;
  Tensor mask(const Tensor& query, const Tensor& key, const AttentionArguments& arguments) const;

  std::int64_t embed_dim_, num_heads_;
  MultiheadAttentionOptions options_;
};

}  // namespace ferrite::nn
