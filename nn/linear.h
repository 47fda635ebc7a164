// Linear, Embedding, Flatten.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "ferrite/nn/module.h"

namespace ferrite::nn {

struct LinearOptions {
  bool bias = true;
};

/// input weight^T + bias: [..., in_features] to [..., out_features]. ShapeError for other inputs.
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

struct EmbeddingOptions {
  /// A row that starts as zero and receives no gradient; negative values count from the end.
  std::optional<std::int64_t> padding_idx = {};
};

/// Looks up rows of a table: int64 [...] to [..., embedding_dim]. IndexError for an index out of
/// range.
class Embedding : public Cloneable<Embedding> {
 public:
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
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
  std::optional<std::int64_t> padding_idx_;
};

struct FlattenOptions {
  int start_dim = 1;
  int end_dim = -1;
};

class Flatten : public Cloneable<Flatten> {
 public:
  explicit Flatten(const FlattenOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  FlattenOptions options_;
};

}  // namespace ferrite::nn
