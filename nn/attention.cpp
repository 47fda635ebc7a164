#include "ferrite/nn/attention.h"

#include <array>
#include <limits>
#include <vector>

#include "ferrite/nn/init.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/attention.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/join.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"

namespace ferrite::nn {

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       const MultiheadAttentionOptions& options)
    : out_proj(embed_dim, embed_dim, {.bias = options.bias}),
      embed_dim_(embed_dim),
      num_heads_(num_heads),
      options_(options) {
  FERRITE_CHECK(embed_dim >= 1 && num_heads >= 1 && embed_dim % num_heads == 0, ValueError,
                "MultiheadAttention", "an embed_dim of {} is not divisible by {} heads", embed_dim,
                num_heads);
  FERRITE_CHECK(options.dropout >= 0 && options.dropout <= 1, ValueError, "MultiheadAttention",
                "dropout: expected a probability, got {}", options.dropout);
  const std::int64_t kdim = options.kdim.value_or(embed_dim);
  const std::int64_t vdim = options.vdim.value_or(embed_dim);
  if (kdim == embed_dim && vdim == embed_dim) {
    in_proj_weight = empty({3 * embed_dim, embed_dim});
  } else {
    q_proj_weight = empty({embed_dim, embed_dim});
    k_proj_weight = empty({embed_dim, kdim});
    v_proj_weight = empty({embed_dim, vdim});
  }
  if (options.bias) in_proj_bias = empty({3 * embed_dim});
  register_parameter("q_proj_weight", q_proj_weight);
  register_parameter("k_proj_weight", k_proj_weight);
  register_parameter("v_proj_weight", v_proj_weight);
  register_parameter("in_proj_weight", in_proj_weight);
  register_parameter("in_proj_bias", in_proj_bias);
  register_module("out_proj", out_proj);
  reset_parameters();
}

void MultiheadAttention::reset_parameters() {
  for (const Tensor* weight : {&in_proj_weight, &q_proj_weight, &k_proj_weight, &v_proj_weight})
    if (weight->defined()) init::xavier_uniform_(*weight);
  out_proj.reset_parameters();
  if (!in_proj_bias.defined()) return;
  init::zeros_(in_proj_bias);
  init::zeros_(out_proj.bias);
}

void MultiheadAttention::check(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const std::int64_t widths[] = {embed_dim_, options_.kdim.value_or(embed_dim_),
                                 options_.vdim.value_or(embed_dim_)};
  const Tensor* const inputs[] = {&query, &key, &value};
  for (int i = 0; i < 3; ++i) {
    const Tensor& t = *inputs[i];
    FERRITE_CHECK(t.defined() && (t.dim() == 2 || t.dim() == 3) && t.size(-1) == widths[i],
                  ShapeError, name(), "expected a {} of {} features, got {}",
                  std::array{"query", "key", "value"}[static_cast<std::size_t>(i)], widths[i],
                  t.describe());
  }
  const int batch = options_.batch_first ? 0 : 1, steps = 1 - batch;
  const bool batched = query.dim() == 3;
  const bool fits =
      key.dim() == query.dim() && value.dim() == query.dim() &&
      key.size(batched ? steps : 0) == value.size(batched ? steps : 0) &&
      (!batched || (key.size(batch) == query.size(batch) && value.size(batch) == key.size(batch)));
  FERRITE_CHECK(fits, ShapeError, name(),
                "query {}, key {} and value {} differ in their batch, or key and value in their "
                "length",
                query.shape(), key.shape(), value.shape());
}

/// The projection of [L, N, *], a batch of N * num_heads: [N * num_heads, L, embed_dim /
/// num_heads].
Tensor MultiheadAttention::heads(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
  return linear(x, weight, bias)
      .reshape({x.size(0), x.size(1) * num_heads_, embed_dim_ / num_heads_})
      .transpose(0, 1);
}

namespace {

/// The mask in the form that is added to the products.
Tensor additive(const Tensor& mask, DType dtype, const char* what) {
  FERRITE_CHECK(mask.dtype() == kBool || is_floating(mask.dtype()), DTypeError,
                "MultiheadAttention", "expected a {} of bool or floating, got {}", what,
                mask.describe());
  if (mask.dtype() != kBool) return mask.to(dtype);
  return masked_fill(zeros(mask.shape(), {.dtype = dtype, .device = mask.device()}), mask,
                     -std::numeric_limits<double>::infinity());
}

}  // namespace

/// Both masks, to be added to products [N * num_heads, L, S]; undefined if there is none. Query and
/// key are [L, N, *] and [S, N, *].
Tensor MultiheadAttention::mask(const Tensor& query, const Tensor& key,
                                const AttentionArguments& arguments) const {
  const std::int64_t targets = query.size(0), batch = query.size(1), sources = key.size(0);
  const std::int64_t all = batch * num_heads_;
  Tensor mask;
  if (arguments.attn_mask.defined()) {
    const Shape& s = arguments.attn_mask.shape();
    FERRITE_CHECK((s == Shape{targets, sources} || s == Shape{all, targets, sources}), ShapeError,
                  name(), "expected an attn_mask of {} or {}, got {}", Shape{targets, sources},
                  Shape{all, targets, sources}, s);
    mask = additive(arguments.attn_mask, query.dtype(), "attn_mask");
  }
  if (arguments.key_padding_mask.defined()) {
    const Tensor& given = arguments.key_padding_mask;
    const Tensor padding = given.dim() == 1 ? given.unsqueeze(0) : given;
    FERRITE_CHECK((padding.shape() == Shape{batch, sources}), ShapeError, name(),
                  "expected a key_padding_mask of {}, got {}", Shape{batch, sources},
                  given.shape());
    const Tensor keys = additive(padding, query.dtype(), "key_padding_mask")
                            .reshape({batch, 1, 1, sources})
                            .expand({batch, num_heads_, 1, sources})
                            .reshape({all, 1, sources});
    mask = mask.defined() ? mask + keys : keys;
  }
  return mask;
}

Tensor MultiheadAttention::forward(const Tensor& input) {
  return forward(input, input, input, {.need_weights = false}).output;
}

std::optional<std::int64_t> MultiheadAttention::multiply_adds(std::span<const Tensor> inputs,
                                                              std::span<const Tensor>) const {
  const bool own = inputs.size() < 3;  // self-attention
  const Tensor &query = inputs[0], &key = inputs[own ? 0 : 1], &value = inputs[own ? 0 : 2];
  const std::int64_t sources = key.size(key.dim() == 2         ? 0
                                        : options_.batch_first ? 1
                                                               : 0);  // per query
  return embed_dim_ * (query.numel() + key.numel() + value.numel()) + 2 * query.numel() * sources;
}

AttentionOutput MultiheadAttention::forward(const Tensor& query, const Tensor& key,
                                            const Tensor& value,
                                            const AttentionArguments& arguments) {
  check(query, key, value);
  const bool batched = query.dim() == 3, turned = batched && options_.batch_first;
  const auto steps_first = [&](const Tensor& t) {
    return !batched ? t.unsqueeze(1) : turned ? t.transpose(0, 1) : t;
  };
  const Tensor q = steps_first(query), k = steps_first(key), v = steps_first(value);
  const std::vector<Tensor> weights =
      in_proj_weight.defined() ? chunk(in_proj_weight, 3)
                               : std::vector{q_proj_weight, k_proj_weight, v_proj_weight};
  const std::vector<Tensor> biases =
      in_proj_bias.defined() ? chunk(in_proj_bias, 3) : std::vector<Tensor>(3);
  const Tensor shares = ferrite::detail::attention_weights(
      heads(q, weights[0], biases[0]), heads(k, weights[1], biases[1]),
      {.attn_mask = mask(q, k, arguments), .dropout_p = is_training() ? options_.dropout : 0});
  const std::int64_t targets = q.size(0), batch = q.size(1), sources = k.size(0);
  const Tensor mixed = matmul(shares, heads(v, weights[2], biases[2]))
                           .transpose(0, 1)
                           .reshape({targets, batch, embed_dim_});
  const Tensor out = out_proj(mixed);
  AttentionOutput result{!batched ? out.squeeze(1) : turned ? out.transpose(0, 1) : out, {}};
  if (!arguments.need_weights) return result;
  result.weights = shares.reshape({batch, num_heads_, targets, sources});
  if (arguments.average_attn_weights) result.weights = mean(result.weights, {1});
  if (!batched) result.weights = result.weights.squeeze(0);
  return result;
}

}  // namespace ferrite::nn
