#include "ferrite/ops/attention.h"

#include <cmath>
#include <limits>
#include <span>

#include "ferrite/core/profiler/range.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

Shape batch_of(const Tensor& t) {
  return Shape(std::span(t.shape().begin(), static_cast<std::size_t>(t.dim() - 2)));
}

void check(const Tensor& query, const Tensor& key, const Tensor& value,
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
  Shape scores = broadcast_shapes(batch_of(query), batch_of(key), kOp);
  broadcast_shapes(scores, batch_of(value), kOp);
  FERRITE_CHECK(o.dropout_p >= 0 && o.dropout_p <= 1, ValueError, kOp,
                "dropout_p: expected a probability, got {}", o.dropout_p);
  if (!o.attn_mask.defined()) return;
  const Tensor& mask = o.attn_mask;
  FERRITE_CHECK(!o.is_causal, ValueError, kOp, "expected attn_mask or is_causal, got both");
  FERRITE_CHECK(mask.device() == query.device(), DeviceError, kOp,
                "attn_mask is on {}, query on {}", mask.device(), query.device());
  FERRITE_CHECK(mask.dtype() == kBool || mask.dtype() == query.dtype(), DTypeError, kOp,
                "attn_mask is {}, expected bool or {}", mask.dtype(), query.dtype());
  scores.push_back(query.size(-2));
  scores.push_back(key.size(-2));
  FERRITE_CHECK(broadcast_shapes(mask.shape(), scores, kOp) == scores, ShapeError, kOp,
                "attn_mask {} does not broadcast to {}", mask.shape(), scores);
}

}  // namespace

Tensor detail::attention_weights(const Tensor& query, const Tensor& key,
                                 const ScaledDotProductAttentionOptions& o) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const double width = static_cast<double>(query.size(-1));
  const double scale = o.scale.value_or(width > 0 ? 1 / std::sqrt(width) : 1);
  Tensor scores = matmul(query * scale, key.transpose(-2, -1));
  if (o.is_causal) {
    const TensorOptions options{.dtype = kBool, .device = query.device()};
    scores = masked_fill(scores, triu(ones({query.size(-2), key.size(-2)}, options), 1), kNever);
  } else if (o.attn_mask.defined()) {
    scores = o.attn_mask.dtype() == kBool ? masked_fill(scores, logical_not(o.attn_mask), kNever)
                                          : scores + o.attn_mask;
  }
  const Tensor weights = softmax(scores, -1);
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
  const profiler::OpRange range("scaled_dot_product_attention", query, key, value);
  check(query, key, value, options);
  return matmul(detail::attention_weights(query, key, options), value);
}

}  // namespace ferrite
