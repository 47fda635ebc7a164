#include "ferrite/ops/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/attention.h"
#include "ferrite/kernels/dropout.h"
#include "ferrite/kernels/random.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;

namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

Shape batch_of(const Tensor& t) {
  return Shape(std::span(t.shape().begin(), static_cast<std::size_t>(t.dim() - 2)));
}

void check_groups(const Tensor& query, const Tensor& key, const Tensor& value) {
  bool fits = query.dim() >= 3 && key.dim() == query.dim() && value.dim() == query.dim();
  for (int d = 0; fits && d < query.dim() - 3; ++d)
    fits = key.size(d) == query.size(d) && value.size(d) == query.size(d);
  fits = fits && key.size(-3) == value.size(-3) && key.size(-3) > 0 &&
         query.size(-3) % key.size(-3) == 0;
  FERRITE_CHECK(
      fits, ShapeError, kOp,
      "enable_gqa: expected a query [..., H, L, E], key [..., G, S, E] and value [..., G, "
      "S, V] with H a multiple of G, got {}, {} and {}",
      query.shape(), key.shape(), value.shape());
}

/// The leading dimensions of the result.
Shape check(const Tensor& query, const Tensor& key, const Tensor& value,
            const ScaledDotProductAttentionOptions& o) {
  for (const Tensor* t : {&query, &key, &value}) {
    FERRITE_CHECK(t->defined(), ValueError, kOp, "query, key or value is undefined");
    FERRITE_CHECK(is_floating(t->dtype()) && t->dtype() == query.dtype(), DTypeError, kOp,
                  "expected query, key and value of one floating type, got {}, {} and {}",
                  query.describe(), key.describe(), value.describe());
    FERRITE_CHECK(t->device() == query.device(), DeviceError, kOp,
                  "query, key and value are on different devices: {}, {} and {}", query.device(),
                  key.device(), value.device());
    FERRITE_CHECK(t->dim() >= 2, ShapeError, kOp,
                  "expected two dimensions or more, got a query {}, key {} and value {}",
                  query.shape(), key.shape(), value.shape());
  }
  FERRITE_CHECK(query.size(-1) == key.size(-1) && key.size(-2) == value.size(-2), ShapeError, kOp,
                "expected a query [..., L, E], key [..., S, E] and value [..., S, V], got {}, {} "
                "and {}",
                query.shape(), key.shape(), value.shape());
  if (o.enable_gqa) check_groups(query, key, value);
  Shape scores = o.enable_gqa
                     ? batch_of(query)
                     : broadcast_shapes(broadcast_shapes(batch_of(query), batch_of(key), kOp),
                                        batch_of(value), kOp);
  FERRITE_CHECK(o.dropout_p >= 0 && o.dropout_p <= 1, ValueError, kOp,
                "dropout_p: expected a probability, got {}", o.dropout_p);
  const Shape batch = scores;
  if (!o.attn_mask.defined()) return batch;
  const Tensor& mask = o.attn_mask;
  FERRITE_CHECK(!o.is_causal, ValueError, kOp, "expected attn_mask or is_causal, got both");
  FERRITE_CHECK(mask.device() == query.device(), DeviceError, kOp,
                "attn_mask is on {}, query on {}", mask.device(), query.device());
  FERRITE_CHECK(mask.dtype() == kBool || mask.dtype() == query.dtype(), DTypeError, kOp,
                "attn_mask is {}, expected bool, float32 or {}", mask.dtype(), query.dtype());
  scores.push_back(query.size(-2));
  scores.push_back(key.size(-2));
  FERRITE_CHECK(broadcast_shapes(mask.shape(), scores, kOp) == scores, ShapeError, kOp,
                "attn_mask {} does not broadcast to {}", mask.shape(), scores);
  return batch;
}

double scale_of(const Tensor& query, const ScaledDotProductAttentionOptions& o) {
  const double width = static_cast<double>(query.size(-1));
  return o.scale.value_or(width > 0 ? 1 / std::sqrt(width) : 1);
}

/// Finite numbers stay finite in `dtype`: a row of -1e9 is not one that attends to nothing.
Tensor in_range(const Tensor& mask, DType dtype) {
  if (dtype == kFloat64) return mask;
  const double most = dtype == kFloat16 ? 65504 : 0x1.FEp127;
  return where(isfinite(mask), clamp(mask, -most, most), mask);
}

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// The arguments of softmax: -inf where a query does not attend to a key.
Tensor scores_of(const Tensor& query, const Tensor& key,
                 const ScaledDotProductAttentionOptions& o) {
  const Tensor scores = matmul(query * scale_of(query, o), key.transpose(-2, -1));
  if (o.is_causal) {
    const TensorOptions options{.dtype = kBool, .device = query.device()};
    return masked_fill(scores, triu(ones({query.size(-2), key.size(-2)}, options), 1), kNever);
  }
  if (!o.attn_mask.defined()) return scores;
  return o.attn_mask.dtype() == kBool ? masked_fill(scores, logical_not(o.attn_mask), kNever)
                                      : scores + o.attn_mask;
}

/// The weights without dropout; 0 for a query that attends to no key.
Tensor defined_weights(const Tensor& query, const Tensor& key,
                       const ScaledDotProductAttentionOptions& o) {
  const Tensor scores = scores_of(query, key, o);
  if (!o.attn_mask.defined() || scores.numel() == 0) return softmax(scores, -1);
  const Tensor none = no_grad([&] { return eq(amax(scores, {-1}, true), kNever); });
  return masked_fill(softmax(masked_fill(scores, none, 0), -1), none, 0);
}

/// Heads of keys or values, each as often as it serves heads of queries.
Tensor repeat_heads(const Tensor& t, std::int64_t heads) {
  if (heads == t.size(-3)) return t;
  Shape each = t.shape(), all = t.shape();
  each.insert(t.dim() - 2, 1);
  each[t.dim() - 2] = heads / t.size(-3);
  all[t.dim() - 3] = heads;
  return t.unsqueeze(-3).expand(each).reshape(all);
}

Tensor composed(const Tensor& query, const Tensor& key, const Tensor& value,
                const ScaledDotProductAttentionOptions& o) {
  const auto each = [&](const Tensor& t) {
    return o.enable_gqa ? repeat_heads(t, query.size(-3)) : t;
  };
  const Tensor weights = defined_weights(query, each(key), o);
  return matmul(o.dropout_p > 0 ? dropout(weights, o.dropout_p) : weights, each(value));
}

/// What the kernels compute: everything [B, heads, rows, columns].
struct AttentionCall {
  ScaledDotProductAttentionOptions options;  ///< the mask [B, H, L, S], if there is one
  PhiloxState state = {};

  kernels::AttentionOperands operands(const Tensor& q, const Tensor& k, const Tensor& v) const {
    kernels::AttentionOperands o{q, k, v};
    if (options.attn_mask.defined()) o.mask = options.attn_mask;
    o.scale = scale_of(q, options);
    o.causal = options.is_causal;
    o.dropout = options.dropout_p;
    o.state = state;
    return o;
  }
};

/// `t` with contiguous rows.
Tensor with_rows(const Tensor& t) {
  return t.stride(-1) == 1 || t.size(-1) == 1 ? t : no_grad([&] { return t.contiguous(); });
}

/// [B, H, rows, columns], in memory in the order of `like`: the layers around attention, for which
/// heads are parts of a step, then need no copy.
Tensor empty_heads(const Tensor& like, std::int64_t columns) {
  std::array<int, 3> order{0, 1, 2}, place{};
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return like.stride(a) > like.stride(b); });
  for (int i = 0; i < 3; ++i)
    place[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = i;
  return empty({like.size(order[0]), like.size(order[1]), like.size(order[2]), columns},
               {.dtype = like.dtype(), .device = like.device()})
      .permute({place[0], place[1], place[2], 3});
}

/// The gradients by ops, for gradients of gradients.
Gradients composed_gradients(const AttentionCall& p, const Tensor& q, const Tensor& k,
                             const Tensor& v, const Tensor& grad) {
  const Tensor keys = repeat_heads(k, q.size(1)), values = repeat_heads(v, q.size(1));
  const Tensor weights = defined_weights(q, keys, p.options);
  Tensor used = weights, from_out = matmul(grad, values.transpose(-2, -1));
  if (p.options.dropout_p > 0) {
    const Tensor kept = no_grad([&] {
      const std::int64_t step = kernels::attention_word_step(k.size(2));
      const Tensor all =
          ones({q.size(0), q.size(1), q.size(2), step}, {.dtype = q.dtype(), .device = q.device()});
      kernels::dropout(current_stream(q.device()), all, all, p.state, p.options.dropout_p);
      return all.narrow(3, 0, k.size(2));
    });
    used = weights * kept;
    from_out = from_out * kept;
  }
  const Tensor scores = weights * (from_out - sum(from_out * weights, {-1}, true));
  const double scale = scale_of(q, p.options);
  const auto grouped = [&](const Tensor& t, const Tensor& like) {
    if (t.size(1) == like.size(1)) return t;
    const std::int64_t each = t.size(1) / like.size(1);
    return sum(t.reshape({t.size(0), like.size(1), each, t.size(2), t.size(3)}), {2});
  };
  return {matmul(scores, keys) * scale, grouped(matmul(scores.transpose(-2, -1), q) * scale, k),
          grouped(matmul(used.transpose(-2, -1), grad), v)};
}

Gradients gradients(const AttentionCall& p, const Tensor& query, const Tensor& key,
                    const Tensor& value, const Tensor& out, const Tensor& lse, const Tensor& grad,
                    Needs needs) {
  if (grad_enabled()) return composed_gradients(p, query, key, value, grad);
  const Tensor q = with_rows(query), k = with_rows(key), v = with_rows(value);
  Gradients result(3);
  if (needs[0]) result[0] = empty_heads(q, q.size(3));
  if (needs[1]) result[1] = empty_heads(k, k.size(3));
  if (needs[2]) result[2] = empty_heads(v, v.size(3));
  const auto view = [&](std::size_t i) {
    return result[i].defined() ? kernels::View(result[i]) : kernels::View();
  };
  kernels::attention_backward(current_stream(q.device()), p.operands(q, k, v),
                              kernels::AttentionGradients{view(0), view(1), view(2)},
                              with_rows(grad), out, lse);
  return result;
}

Tensor attend(AttentionCall p, const Tensor& query, const Tensor& key, const Tensor& value) {
  const Stream stream = current_stream(query.device());
  const Tensor q = with_rows(query), k = with_rows(key), v = with_rows(value);
  const std::int64_t rows = q.size(0) * q.size(1) * q.size(2);
  if (p.options.dropout_p > 0) {
    const std::int64_t words = rows * kernels::attention_word_step(k.size(2));
    p.state =
        default_generator(q.device()).reserve(kernels::random_blocks(words, kFloat32), stream);
  }
  const Tensor out = empty_heads(q, v.size(3));
  const Tensor lse =
      empty({rows}, {.dtype = q.dtype() == kFloat64 ? kFloat64 : kFloat32, .device = q.device()});
  kernels::attention(stream, p.operands(q, k, v), out, lse);
  if (recording(query, key, value))
    record(out, kOp, {query, key, value},
           [p, q = Saved(query), k = Saved(key), v = Saved(value), o = Saved::output(out), lse](
               const Tensor& grad, Needs needs) {
             return gradients(p, q.get(), k.get(), v.get(), o.get(), lse, grad, needs);
           });
  return out;
}

/// `t`, of leading dimensions that broadcast to `batch`, as [B, heads, rows, columns].
Tensor fold(const Tensor& t, Shape batch) {
  Shape all = batch;
  all.push_back(t.size(-2));
  all.push_back(t.size(-1));
  const Tensor full = t.shape() == all ? t : t.expand(all);
  if (batch.size() == 2) return full;
  if (batch.size() > 2) return full.flatten(0, batch.size() - 2);
  return batch.size() == 1 ? full.unsqueeze(0) : full.unsqueeze(0).unsqueeze(0);
}

}  // namespace

Tensor detail::attention_weights(const Tensor& query, const Tensor& key,
                                 const ScaledDotProductAttentionOptions& o) {
  const Tensor weights = softmax(scores_of(query, key, o), -1);
  return o.dropout_p > 0 ? dropout(weights, o.dropout_p) : weights;
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const ScaledDotProductAttentionOptions& options) {
  if (const auto cast = ops::autocast(AutocastOp::matmul, query, key, value, options.attn_mask)) {
    const auto& [q, k, v, mask] = *cast;
    ScaledDotProductAttentionOptions converted = options;
    converted.attn_mask = mask;
    return scaled_dot_product_attention(q, k, v, converted);
  }
  if (options.attn_mask.defined() && options.attn_mask.dtype() == kFloat32 && query.defined() &&
      is_floating(query.dtype()) && query.dtype() != kFloat32) {
    ScaledDotProductAttentionOptions converted = options;
    converted.attn_mask = in_range(options.attn_mask, query.dtype()).to(query.dtype());
    return scaled_dot_product_attention(query, key, value, converted);
  }
  const profiler::OpRange range(kOp, query, key, value);
  const Shape batch = check(query, key, value, options);
  if (tracing::on()) return composed(query, key, value, options);
  const Tensor& mask = options.attn_mask;
  const bool empty =
      batch.numel() == 0 || query.numel() == 0 || key.numel() == 0 || value.numel() == 0;
  if (empty || options.dropout_p == 1 || (grad_enabled() && mask.defined() && mask.requires_grad()))
    return composed(query, key, value, options);

  AttentionCall p{options};
  if (mask.defined()) {
    const Tensor rows = mask.dim() >= 2 ? mask : mask.unsqueeze(0);
    Shape full = batch;
    full.push_back(query.size(-2));
    full.push_back(key.size(-2));
    p.options.attn_mask = no_grad([&] { return fold(rows.detach().expand(full), batch); });
  }
  Shape key_batch = batch;
  if (options.enable_gqa) key_batch[batch.size() - 1] = key.size(-3);
  const Tensor out =
      attend(std::move(p), fold(query, batch), fold(key, key_batch), fold(value, key_batch));
  if (batch.size() == 2) return out;
  Shape shape = batch;
  shape.push_back(query.size(-2));
  shape.push_back(value.size(-1));
  return out.reshape(shape);
}

}  // namespace ferrite
