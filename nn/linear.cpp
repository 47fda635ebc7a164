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

Embedding Embedding::from_pretrained(Tensor embeddings, bool freeze,
                                     const EmbeddingOptions& options) {
  FERRITE_CHECK(embeddings.defined() && embeddings.dim() == 2, ShapeError, "Embedding",
                "expected rows [num_embeddings, embedding_dim], got {}", embeddings.describe());
  Embedding made(embeddings.size(0), 0, options);
  made.weight = embeddings.detach();
  made.weight.set_requires_grad(!freeze);
  return made;
}

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
                     const EmbeddingOptions& options)
    : weight(empty({num_embeddings, embedding_dim})), padding_idx_(options.padding_idx) {
  if (padding_idx_) {
    FERRITE_CHECK(*padding_idx_ >= -num_embeddings && *padding_idx_ < num_embeddings, ValueError,
                  "Embedding", "padding_idx {} is outside of {} embeddings", *padding_idx_,
                  num_embeddings);
    if (*padding_idx_ < 0) *padding_idx_ += num_embeddings;
  }
  register_parameter("weight", weight);
  reset_parameters();
}

void Embedding::reset_parameters() {
  init::normal_(weight);
  if (padding_idx_) init::zeros_(weight.detach().select(0, *padding_idx_));
}

Tensor Embedding::forward(const Tensor& indices) {
  return embedding(indices, weight, padding_idx_);
}

std::string Embedding::extra_repr() const {
  const std::string text = fmt::format("{}, {}", weight.size(0), weight.size(1));
  return padding_idx_ ? fmt::format("{}, padding_idx={}", text, *padding_idx_) : text;
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
  std::optional<std::int64_t>& padding = options_.padding_idx;
  if (padding) {
    FERRITE_CHECK(*padding >= -num_embeddings && *padding < num_embeddings, ValueError,
                  "EmbeddingBag", "padding_idx {} is outside of {} embeddings", *padding,
                  num_embeddings);
    if (*padding < 0) *padding += num_embeddings;
  }
  register_parameter("weight", weight);
  reset_parameters();
}

void EmbeddingBag::reset_parameters() {
  init::normal_(weight);
  if (options_.padding_idx) init::zeros_(weight.detach().select(0, *options_.padding_idx));
}

Tensor EmbeddingBag::forward(const Tensor& indices, const Tensor& offsets,
                             const Tensor& per_sample_weights) {
  return embedding_bag(indices, weight, offsets,
                       {.mode = options_.mode,
                        .per_sample_weights = per_sample_weights,
                        .include_last_offset = options_.include_last_offset,
                        .padding_idx = options_.padding_idx});
}

std::string EmbeddingBag::extra_repr() const {
  constexpr const char* kModes[] = {"sum", "mean", "max"};
  std::string text = fmt::format("{}, {}, mode='{}'", weight.size(0), weight.size(1),
                                 kModes[static_cast<int>(options_.mode)]);
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
