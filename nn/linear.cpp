#include "ferrite/nn/linear.h"

#include <cmath>

#include "ferrite/nn/init.h"
#include "ferrite/nn/repr.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/products.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"

namespace ferrite::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options)
    : weight(empty({out_features, in_features})) {
  if (options.bias) bias = empty({out_features});
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  reset_parameters();
}

void Linear::reset_parameters() {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const auto fan_in = static_cast<double>(weight.size(1));
  const double bound = fan_in > 0 ? 1 / std::sqrt(fan_in) : 0;
  init::uniform_(bias, -bound, bound);
}

Tensor Linear::forward(const Tensor& input) { return linear(input, weight, bias); }

std::string Linear::extra_repr() const {
  return fmt::format("in_features={}, out_features={}, bias={}", weight.size(1), weight.size(0),
                     repr(bias.defined()));
}

std::optional<std::int64_t> Linear::multiply_adds(std::span<const Tensor>,
                                                  std::span<const Tensor> outputs) const {
  return outputs[0].numel() * weight.size(1);
}

namespace {

/// Checks the options of a table of `rows` rows, and counts padding_idx from the start.
template <class Options>
void check_rows(const char* layer, Options& o, std::int64_t rows) {
  FERRITE_CHECK(!o.max_norm || *o.max_norm >= 0, ValueError, layer,
                "max_norm must be at least 0, got {}", *o.max_norm);
  if (!o.padding_idx) return;
  FERRITE_CHECK(*o.padding_idx >= -rows && *o.padding_idx < rows, ValueError, layer,
                "padding_idx {} is outside of {} embeddings", *o.padding_idx, rows);
  if (*o.padding_idx < 0) *o.padding_idx += rows;
}

template <class Options>
std::string limits_repr(const Options& o) {
  std::string text;
  if (o.max_norm) text += ", max_norm=" + repr(*o.max_norm);
  if (o.norm_type != 2) text += ", norm_type=" + repr(o.norm_type);
  if (o.scale_grad_by_freq) text += ", scale_grad_by_freq=True";
  return text;
}

/// A table of these rows.
template <class Table, class Options>
Table pretrained(const char* layer, const Tensor& rows, bool freeze, const Options& options) {
  FERRITE_CHECK(rows.defined() && rows.dim() == 2, ShapeError, layer,
                "expected rows [num_embeddings, embedding_dim], got {}",
                rows.defined() ? rows.describe() : "an undefined tensor");
  Table made(rows.size(0), 0, options);
  made.weight = rows.detach();
  made.weight.set_requires_grad(!freeze);
  return made;
}

}  // namespace

Embedding Embedding::from_pretrained(Tensor embeddings, bool freeze,
                                     const EmbeddingOptions& options) {
  return pretrained<Embedding>("Embedding", embeddings, freeze, options);
}

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
                     const EmbeddingOptions& options)
    : weight(empty({num_embeddings, embedding_dim})), options_(options) {
  check_rows("Embedding", options_, num_embeddings);
  register_parameter("weight", weight);
  reset_parameters();
}

void Embedding::reset_parameters() {
  init::normal_(weight);
  if (options_.padding_idx) init::zeros_(weight.detach().select(0, *options_.padding_idx));
}

Tensor Embedding::forward(const Tensor& indices) { return embedding(indices, weight, options_); }

std::string Embedding::extra_repr() const {
  std::string text = fmt::format("{}, {}", weight.size(0), weight.size(1));
  if (options_.padding_idx) text += fmt::format(", padding_idx={}", *options_.padding_idx);
  return text + limits_repr(options_);
}

Tensor Flatten::forward(const Tensor& input) {
  return input.flatten(options_.start_dim, options_.end_dim);
}

std::string Flatten::extra_repr() const {
  return fmt::format("start_dim={}, end_dim={}", options_.start_dim, options_.end_dim);
}

Tensor Unflatten::forward(const Tensor& input) { return unflatten(input, dim_, sizes_); }

std::string Unflatten::extra_repr() const {
  return fmt::format("dim={}, unflattened_size={}", dim_, repr(sizes_));
}

Bilinear::Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
                   const LinearOptions& options)
    : weight(empty({out_features, in1_features, in2_features})) {
  FERRITE_CHECK(in1_features > 0, ValueError, "Bilinear", "in1_features must be above 0, got {}",
                in1_features);
  if (options.bias) bias = empty({out_features});
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  reset_parameters();
}

void Bilinear::reset_parameters() {
  const double bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}

Tensor Bilinear::forward(const Tensor& x1, const Tensor& x2) {
  return bilinear(x1, x2, weight, bias);
}

std::string Bilinear::extra_repr() const {
  return fmt::format("in1_features={}, in2_features={}, out_features={}, bias={}", weight.size(1),
                     weight.size(2), weight.size(0), repr(bias.defined()));
}

EmbeddingBag::EmbeddingBag(std::int64_t num_embeddings, std::int64_t embedding_dim,
                           const EmbeddingBagLayerOptions& options)
    : weight(empty({num_embeddings, embedding_dim})), options_(options) {
  check_rows("EmbeddingBag", options_, num_embeddings);
  FERRITE_CHECK(!options.scale_grad_by_freq || options.mode != BagMode::max, ValueError,
                "EmbeddingBag",
                "scale_grad_by_freq works with the modes sum and mean, not with max");
  register_parameter("weight", weight);
  reset_parameters();
}

EmbeddingBag EmbeddingBag::from_pretrained(Tensor embeddings, bool freeze,
                                           const EmbeddingBagLayerOptions& options) {
  return pretrained<EmbeddingBag>("EmbeddingBag", embeddings, freeze, options);
}

void EmbeddingBag::reset_parameters() {
  init::normal_(weight);
  if (options_.padding_idx) init::zeros_(weight.detach().select(0, *options_.padding_idx));
}

Tensor EmbeddingBag::forward(const Tensor& indices, const Tensor& offsets,
                             const Tensor& per_sample_weights) {
  return embedding_bag(indices, weight, offsets,
                       {.max_norm = options_.max_norm,
                        .norm_type = options_.norm_type,
                        .scale_grad_by_freq = options_.scale_grad_by_freq,
                        .mode = options_.mode,
                        .per_sample_weights = per_sample_weights,
                        .include_last_offset = options_.include_last_offset,
                        .padding_idx = options_.padding_idx});
}

std::string EmbeddingBag::extra_repr() const {
  std::string text = fmt::format("{}, {}{}, mode='{}'", weight.size(0), weight.size(1),
                                 limits_repr(options_), options_.mode.name());
  if (options_.padding_idx) text += fmt::format(", padding_idx={}", *options_.padding_idx);
  return text;
}

Tensor CosineSimilarity::forward(const Tensor& x1, const Tensor& x2) {
  return cosine_similarity(x1, x2, dim_, eps_);
}

Tensor PairwiseDistance::forward(const Tensor& x1, const Tensor& x2) {
  return pairwise_distance(x1, x2, p_, eps_, keepdim_);
}

}  // namespace ferrite::nn
