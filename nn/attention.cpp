#include "ferrite/nn/attention.h"

#include <array>
#include <limits>
#include <vector>

#include "ferrite/nn/init.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/attention.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"

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
  // Set, since clone() looks for pointers in all bytes, and those of an unset value may hold any.
  options_.kdim = kdim;
  options_.vdim = vdim;
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
  if (options.add_bias_kv) {
    bias_k = empty({1, 1, embed_dim});
    bias_v = empty({1, 1, embed_dim});
  }
  register_parameter("bias_k", bias_k);
  register_parameter("bias_v", bias_v);
  register_module("out_proj", out_proj);
  reset_parameters();
}

void MultiheadAttention::reset_parameters() {
  for (const Tensor* weight : {&in_proj_weight, &q_proj_weight, &k_proj_weight, &v_proj_weight})
    if (weight->defined()) init::xavier_uniform_(*weight);
  for (const Tensor* bias : {&bias_k, &bias_v})
    if (bias->defined()) init::xavier_normal_(*bias);
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

/// The projection of x, [L, N, *] or batch_first [N, L, *], as [N, heads, L, embed_dim / heads];
/// those of `sources` with `appended` [1, 1, embed_dim], and zeros, as further steps.
Tensor MultiheadAttention::heads(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Tensor& appended, bool sources) const {
  const std::int64_t width = embed_dim_ / num_heads_;
  const int steps = options_.batch_first ? 1 : 0, batch = 1 - steps;
  const Tensor all = linear(x, weight, bias);
  const Tensor split = all.reshape({x.size(0), x.size(1), num_heads_, width});
  const Tensor each = split.permute({batch, 2, steps, 3});
  std::vector<Tensor> parts{each};
  const Shape one{x.size(batch), num_heads_, 1, width};
  if (appended.defined())
    parts.push_back(appended.to(each.dtype()).reshape({1, num_heads_, 1, width}).expand(one));
  if (sources && options_.add_zero_attn)
    parts.push_back(zeros(one, {.dtype = each.dtype(), .device = each.device()}));
  return parts.size() == 1 ? each : cat(parts, 2);
}

namespace {

/// A mask of the form that scaled_dot_product_attention takes: true where a query attends to a key,
/// or added to the products.
Tensor attending(const Tensor& mask, const char* what) {
  FERRITE_CHECK(mask.dtype() == kBool || is_floating(mask.dtype()), DTypeError,
                "MultiheadAttention", "expected a {} of bool or floating, got {}", what,
                mask.describe());
  return mask.dtype() == kBool ? logical_not(mask) : mask;
}

/// A mask of numbers in `dtype`, in which finite ones stay finite, also after the addition: a row
/// of -1e9 is not one that attends to nothing, whose shares would be NaN.
Tensor converted(const Tensor& mask, DType dtype) {
  if (mask.dtype() == kBool || mask.dtype() == dtype) return mask;
  if (dtype == kFloat64) return mask.to(dtype);
  const double most = dtype == kFloat16 ? 32752 : 0x1.FEp127;  // half of float16's range
  return where(isfinite(mask), clamp(mask, -most, most), mask).to(dtype);
}

Tensor additive(const Tensor& mask, DType dtype) {
  if (mask.dtype() != kBool) return mask;
  return masked_fill(zeros(mask.shape(), {.dtype = dtype, .device = mask.device()}),
                     logical_not(mask), -std::numeric_limits<double>::infinity());
}

/// Both masks, one of which may be undefined. Those of 16 bits in float32, in which the sum of
/// their lowest numbers is finite.
Tensor both(const Tensor& a, const Tensor& b, DType dtype) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  if (a.dtype() == kBool && b.dtype() == kBool) return logical_and(a, b);
  const auto wide = [&](const Tensor& mask) {
    const Tensor t = additive(mask, dtype);
    return itemsize(t.dtype()) == 2 ? t.to(kFloat32) : t;
  };
  return wide(a) + wide(b);
}

}  // namespace

/// Both masks, broadcasting to [N, num_heads, L, S]; undefined if there is none. Query and key are
/// [L, N, *] and [S, N, *], or batch_first.
Tensor MultiheadAttention::mask(const Tensor& query, const Tensor& key,
                                const AttentionArguments& arguments) const {
  const int steps = options_.batch_first ? 1 : 0;
  const std::int64_t targets = query.size(steps), batch = query.size(1 - steps),
                     sources = key.size(steps), all = batch * num_heads_;
  FERRITE_CHECK(!arguments.is_causal || arguments.attn_mask.defined(), ValueError, name(),
                "is_causal describes attn_mask, which is undefined: pass the mask as well");
  Tensor mask, padding;
  if (arguments.attn_mask.defined()) {
    const Shape& s = arguments.attn_mask.shape();
    FERRITE_CHECK((s == Shape{targets, sources} || s == Shape{all, targets, sources}), ShapeError,
                  name(), "expected an attn_mask of {} or {}, got {}", Shape{targets, sources},
                  Shape{all, targets, sources}, s);
    mask = attending(arguments.attn_mask, "attn_mask");
    if (s.size() == 3) mask = mask.reshape({batch, num_heads_, targets, sources});
  }
  if (arguments.key_padding_mask.defined()) {
    const Tensor& given = arguments.key_padding_mask;
    const Tensor keys = given.dim() == 1 ? given.unsqueeze(0) : given;
    FERRITE_CHECK((keys.shape() == Shape{batch, sources}), ShapeError, name(),
                  "expected a key_padding_mask of {}, got {}", Shape{batch, sources},
                  given.shape());
    padding = attending(keys, "key_padding_mask").reshape({batch, 1, 1, sources});
  }
  mask = both(mask, padding, query.dtype());
  if (mask.defined()) mask = converted(mask, query.dtype());
  const int more = (bias_k.defined() ? 1 : 0) + (options_.add_zero_attn ? 1 : 0);
  if (!mask.defined() || more == 0) return mask;
  Shape shape = mask.shape();
  shape[shape.size() - 1] = more;
  const TensorOptions options{.dtype = mask.dtype(), .device = mask.device()};
  return cat({mask, mask.dtype() == kBool ? ones(shape, options) : zeros(shape, options)}, -1);
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
  const bool batched = query.dim() == 3;
  const int batch = options_.batch_first ? 0 : 1, steps = 1 - batch;
  const auto in_batch = [&](const Tensor& t) { return batched ? t : t.unsqueeze(batch); };
  const Tensor q = in_batch(query), k = in_batch(key), v = in_batch(value);
  const std::vector<Tensor> weights =
      in_proj_weight.defined() ? chunk(in_proj_weight, 3)
                               : std::vector{q_proj_weight, k_proj_weight, v_proj_weight};
  const std::vector<Tensor> biases =
      in_proj_bias.defined() ? chunk(in_proj_bias, 3) : std::vector<Tensor>(3);
  ScaledDotProductAttentionOptions options{.attn_mask = mask(q, k, arguments),
                                           .dropout_p = is_training() ? options_.dropout : 0};
  const Tensor queries = heads(q, weights[0], biases[0], {}, false),
               keys = heads(k, weights[1], biases[1], bias_k, true),
               values = heads(v, weights[2], biases[2], bias_v, true);
  Tensor shares, mixed;
  if (arguments.need_weights) {
    shares = ferrite::detail::attention_weights(queries, keys, options);
    mixed = matmul(shares, values);
  } else {
    if (arguments.is_causal && !arguments.key_padding_mask.defined() &&
        keys.size(2) == k.size(steps)) {
      options.attn_mask = {};
      options.is_causal = true;
    }
    mixed = scaled_dot_product_attention(queries, keys, values, options);
  }
  // [N, heads, L, width] to the inputs' order.
  mixed = options_.batch_first ? mixed.transpose(1, 2) : mixed.permute({2, 0, 1, 3});
  const Tensor out = out_proj(mixed.reshape(q.shape()));
  AttentionOutput result{batched ? out : out.squeeze(batch), shares};
  if (!shares.defined()) return result;
  if (arguments.average_attn_weights) result.weights = mean(shares, {1});
  if (!batched) result.weights = result.weights.squeeze(0);
  return result;
}

}  // namespace ferrite::nn
