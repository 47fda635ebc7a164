// Linear, Bilinear, Embedding, EmbeddingBag, Flatten, Unflatten, CosineSimilarity,
// PairwiseDistance.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "ferrite/nn/module.h"
#include "ferrite/ops/embedding_bag.h"
#include "ferrite/ops/index.h"

namespace ferrite::nn {

struct LinearOptions {
  bool bias = true;
};

/// input weight^T + bias: [..., in_features] to [..., out_features]. ShapeError for other inputs.
/// Initial weights and biases are uniform within +-1 / sqrt(in_features).
///
///   nn::Linear fc(784, 10);
///   Tensor logits = fc(randn({64, 784}));  // [64, 10]
class Linear : public Cloneable<Linear> {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options = {});
  Linear(std::int64_t in_features, std::int64_t out_features, std::same_as<bool> auto bias)
      : Linear(in_features, out_features, LinearOptions{.bias = bias}) {}
  /// Draws new weights: uniform within +-1 / sqrt(in_features).
  void reset_parameters();
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;

  Tensor weight;  ///< [out_features, in_features]
  Tensor bias;    ///< [out_features]; undefined without bias
};

/// bilinear() of ops/matmul.h as a module: x1^T weight[k] x2 + bias[k] for each output k.
/// `layer(x1, x2)` of [*, in1_features] and [*, in2_features] gives [*, out_features]; ShapeError
/// for other inputs.
class Bilinear : public Cloneable<Bilinear> {
 public:
  Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
           const LinearOptions& options = {});
  /// Draws new weights: uniform within +-1 / sqrt(in1_features).
  void reset_parameters();
  using Module::forward;
  Tensor forward(const Tensor& x1, const Tensor& x2);
  std::string extra_repr() const override;

  Tensor weight;  ///< [out_features, in1_features, in2_features]
  Tensor bias;    ///< [out_features]; undefined without bias
};

using ferrite::EmbeddingOptions;

/// Looks up rows of a table: int64 [...] to [..., embedding_dim]. IndexError for an index out of
/// range. With `max_norm`, forward() changes `weight` in place, off the tape.
///
///   nn::Embedding embedding(10000, 256);
///   Tensor x = embedding(tokens);  // [N, L] to [N, L, 256]
class Embedding : public Cloneable<Embedding> {
 public:
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
            const EmbeddingOptions& options = {});
  /// With these rows, [num_embeddings, embedding_dim], which are shared, not copied, and get no
  /// gradients where `freeze`. ShapeError for others.
  static Embedding from_pretrained(Tensor embeddings, bool freeze = true,
                                   const EmbeddingOptions& options = {});
  /// Draws new rows from N(0, 1).
  void reset_parameters();
  Tensor forward(const Tensor& indices) override;
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor>,
                                            std::span<const Tensor>) const override {
    return 0;
  }

  Tensor weight;  ///< [num_embeddings, embedding_dim]

 private:
  EmbeddingOptions options_;
};

/// The options of EmbeddingBag.
struct EmbeddingBagLayerOptions {
  /// Limits the norms of the rows that are looked up, in place: see EmbeddingOptions (ops/index.h).
  std::optional<double> max_norm = {};
  double norm_type = 2;  ///< the p of the p-norm that max_norm limits
  /// Whether the gradient of a row is divided by how often the indices contain it; ValueError with
  /// BagMode::max.
  bool scale_grad_by_freq = false;
  Choice<BagMode> mode = BagMode::mean;  ///< how the rows of a bag become one: sum, mean or max
  bool include_last_offset = false;      ///< whether the last offset is the end of the last bag
  std::optional<std::int64_t> padding_idx = {};  ///< a row that starts as zero and does not count
};

/// embedding_bag() of ops/embedding_bag.h as a module: looks up rows and reduces them bag by bag,
/// to [bags, embedding_dim]. `bags(indices)` for indices [bags, n]; `bags(indices, offsets)` for
/// indices [n] and the first of each bag, [bags]; with BagMode::sum, `bags(indices, offsets,
/// per_sample_weights)`. IndexError for an index out of range.
///
///   nn::EmbeddingBag bags(1000, 64, {.mode = BagMode::sum});
///   Tensor y = bags(randint(0, 1000, {8, 5}));  // [8, 64]
class EmbeddingBag : public Cloneable<EmbeddingBag> {
 public:
  EmbeddingBag(std::int64_t num_embeddings, std::int64_t embedding_dim,
               const EmbeddingBagLayerOptions& options = {});
  /// With these rows, as Embedding::from_pretrained().
  static EmbeddingBag from_pretrained(Tensor embeddings, bool freeze = true,
                                      const EmbeddingBagLayerOptions& options = {});
  /// Draws new rows from N(0, 1).
  void reset_parameters();
  Tensor forward(const Tensor& indices) override { return forward(indices, {}, {}); }
  Tensor forward(const Tensor& indices, const Tensor& offsets) {
    return forward(indices, offsets, {});
  }
  Tensor forward(const Tensor& indices, const Tensor& offsets, const Tensor& per_sample_weights);
  std::string extra_repr() const override;

  Tensor weight;  ///< [num_embeddings, embedding_dim]

 private:
  EmbeddingBagLayerOptions options_;
};

struct FlattenOptions {
  int start_dim = 1;  ///< the first dimension that is joined
  int end_dim = -1;   ///< the last dimension that is joined
};

/// Splits dimension `dim` into `sizes`, one of which may be -1. ShapeError unless the sizes'
/// product is that of the dimension.
///
///   nn::Unflatten split(1, {8, 2, 2});
///   Tensor y = split(randn({4, 32}));  // [4, 8, 2, 2]
class Unflatten : public Cloneable<Unflatten> {
 public:
  Unflatten(int dim, const Shape& sizes) : dim_(dim), sizes_(sizes) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  int dim_;
  Shape sizes_;
};

/// cosine_similarity() as a module: the cosine of the angle between vectors along dimension `dim`,
/// of two inputs that broadcast: [N] of [N, D] for dim 1. Norms are held at `eps` at least.
class CosineSimilarity : public Cloneable<CosineSimilarity> {
 public:
  explicit CosineSimilarity(int dim = 1, double eps = 1e-8) : dim_(dim), eps_(eps) {}
  using Module::forward;
  Tensor forward(const Tensor& x1, const Tensor& x2);

 private:
  int dim_;
  double eps_;
};

/// pairwise_distance() as a module: the p-norms of x1 - x2 + eps along the last dimension: [N] of
/// [N, D], or [N, 1] with keepdim.
class PairwiseDistance : public Cloneable<PairwiseDistance> {
 public:
  explicit PairwiseDistance(double p = 2, double eps = 1e-6, bool keepdim = false)
      : p_(p), eps_(eps), keepdim_(keepdim) {}
  using Module::forward;
  Tensor forward(const Tensor& x1, const Tensor& x2);

 private:
  double p_, eps_;
  bool keepdim_;
};

/// The dimensions from start_dim (1) to end_dim (-1) become one: [N, C, H, W] becomes [N, C * H *
/// W].
class Flatten : public Cloneable<Flatten> {
 public:
  explicit Flatten(const FlattenOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  FlattenOptions options_;
};

}  // namespace ferrite::nn
