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
  /// Whether the input projections and out_proj add a bias.
  bool bias = true;
  bool add_bias_kv = false;    ///< appends a learned key and value, bias_k and bias_v
  bool add_zero_attn = false;  ///< appends a key and a value of zeros
  /// The number of features of the keys, and of the values; default: embed_dim.
  std::optional<std::int64_t> kdim = {}, vdim = {};
  /// Inputs and output are [N, L, *] instead of [L, N, *]; masks and weights are not affected.
  bool batch_first = false;
};

/// The optional arguments of a call. Masks are bool or floating (DTypeError). In a bool mask true
/// means "does not attend", as in torch.nn.MultiheadAttention and opposite to
/// scaled_dot_product_attention(). A floating mask is converted to the query's dtype, in which
/// finite numbers stay finite, and added to the scaled products of queries and keys: -inf has the
/// effect of true. Both masks may be given.
///
///   Tensor future = triu(ones({5, 5}, kBool), 1);        // query i does not see keys i + 1, ...
///   Tensor padding = ge(arange(5), tensor({{5}, {3}}));  // [2, 5]: sample 1 has 3 keys
///   auto [y, weights] = attention(x, x, x, {.key_padding_mask = padding, .attn_mask = future});
struct AttentionArguments {
  /// [N, S], or [S] without a batch (ShapeError): keys of each sample, for all queries and heads.
  Tensor key_padding_mask = {};
  /// Whether the weights are returned. Without them the L x S weights are not kept in memory.
  bool need_weights = true;
  /// [L, S]: which query attends to which key, for all samples and heads; or
  /// [N * num_heads, L, S]: for each sample and head, all heads of a sample in a row. Without a
  /// batch N is 1. ShapeError for other shapes.
  Tensor attn_mask = {};
  /// The weights are the mean over the heads, [N, L, S], instead of [N, num_heads, L, S].
  bool average_attn_weights = true;
  /// Says that attn_mask, which must be given (ValueError), is the causal mask: query i attends to
  /// keys 0 to i. If need_weights is false, and there is no key_padding_mask and no appended key,
  /// the values of attn_mask are not read and products above the diagonal are not computed.
  /// Otherwise attn_mask is used as it is.
  bool is_causal = false;
};

/// What MultiheadAttention returns, a NamedTuple (core/named_tuple.h): `auto [output, weights] =`.
struct AttentionOutput {
  Tensor output;  ///< of the query's shape
  /// [N, L, S], or [N, num_heads, L, S] unless average_attn_weights; no N without a batch. After
  /// dropout. S counts the keys that add_bias_kv and add_zero_attn append. Undefined unless
  /// need_weights.
  Tensor weights;
  /// The parts, for structured bindings.
  auto fields() { return std::tie(output, weights); }
  /// The parts, for structured bindings.
  auto fields() const { return std::tie(output, weights); }
  operator std::tuple<Tensor&, Tensor&>() && { return fields(); }
  operator std::tuple<Tensor, Tensor>() const { return fields(); }
};

/// Multi-head attention (Vaswani et al. 2017): each of num_heads heads attends with embed_dim /
/// num_heads features. Names of parameters, initial values and results are those of PyTorch.
///
///   nn::MultiheadAttention attention(512, 8, {.batch_first = true});
///   Tensor y = attention(x);  // self-attention of x [N, L, 512], without weights
///   auto [z, weights] = attention(query, key, value);
class MultiheadAttention : public Cloneable<MultiheadAttention> {
 public:
  /// ValueError unless num_heads divides embed_dim, both are 1 or more, and dropout is in [0, 1].
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});
  /// Draws the input projections by init::xavier_uniform_, bias_k and bias_v by
  /// init::xavier_normal_, and out_proj as Linear does; sets the biases to 0.
  void reset_parameters();

  /// Self-attention, the input being query, key and value: the output alone, of its shape.
  Tensor forward(const Tensor& input) override;
  /// Query [L, N, embed_dim], key [S, N, kdim] and value [S, N, vdim] give [L, N, embed_dim]; with
  /// batch_first N comes first; without a batch they are [L, embed_dim], [S, kdim] and [S, vdim].
  /// ShapeError for other shapes and for undefined inputs; DTypeError unless inputs have the dtype
  /// of the parameters (autocast converts them). A query that attends to no key gives NaN with
  /// need_weights, as in PyTorch; without, its heads give 0.
  AttentionOutput forward(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionArguments& arguments);
  Tensor operator()(const Tensor& input) { return Cloneable::operator()(input); }
  AttentionOutput operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionArguments& arguments = {}) {
    return Cloneable::operator()(query, key, value, arguments);
  }

  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;

  /// [3 * embed_dim, embed_dim]: the projections of query, key and value, in this order; undefined
  /// if kdim or vdim differs from embed_dim.
  Tensor in_proj_weight;
  /// The projections if kdim or vdim differs from embed_dim, else undefined: [embed_dim,
  /// embed_dim], [embed_dim, kdim] and [embed_dim, vdim].
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;
  Tensor in_proj_bias;    ///< [3 * embed_dim]; undefined without bias
  Tensor bias_k, bias_v;  ///< [1, 1, embed_dim]: the appended key and value; with add_bias_kv
  /// The linear layer behind the heads: embed_dim to embed_dim.
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
