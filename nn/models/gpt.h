// Language models of the GPT family (Radford et al. 2019, "Language Models are Unsupervised
// Multitask Learners").
#pragma once

#include <cstdint>

#include "ferrite/core/generator.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/transformer.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/sampling.h"

namespace ferrite::nn {

/// The defaults are those of GPT-2 with 124 million parameters, without dropout.
struct GPTOptions {
  std::int64_t vocab_size = 50257;     ///< the number of different tokens
  std::int64_t context_length = 1024;  ///< the largest number of tokens of a sequence
  std::int64_t num_layers = 12;        ///< the number of blocks
  std::int64_t num_heads = 12;         ///< the number of attention heads of a block
  std::int64_t hidden_dim = 768;       ///< the size of a token's embedding
  double dropout = 0;                  ///< the probability of all dropouts, in training
  /// Whether the output layer shares its weight with the embedding of the tokens.
  bool tie_weights = true;
  GeluApproximation activation = GeluApproximation::tanh;
};

/// Predicts each next token of a sequence by transformer layers with causal attention and their
/// norms in front. Weights are drawn as in GPT-2: with a deviation of 0.02, and of
/// 0.02 / sqrt(2 * num_layers) where a layer adds to the residual; biases are 0.
///
///   nn::GPT model({.vocab_size = 256, .num_layers = 2, .num_heads = 4, .hidden_dim = 64});
///   Tensor loss = cross_entropy(model(ids).flatten(0, 1), next.flatten());
class GPT : public Cloneable<GPT> {
 public:
  /// ValueError for sizes below 1, for num_heads that do not divide hidden_dim, and for a dropout
  /// outside [0, 1].
  explicit GPT(const GPTOptions& options = {});
  /// int64 ids [N, L] to logits [N, L, vocab_size] of the token after each. ShapeError for other
  /// shapes, and for L above context_length.
  Tensor forward(const Tensor& ids) override;
  /// `ids` [N, L], L at least 1, followed by `count` tokens, each drawn from the logits of up to
  /// context_length tokens before it. Nothing is recorded on the tape. Call eval() first, so that
  /// there is no dropout.
  Tensor generate(const Tensor& ids, std::int64_t count, const SamplingOptions& options = {},
                  Generator* generator = nullptr);

 private:
  GPTOptions options_;  // checked before the layers are made

 public:
  Embedding tokens;           ///< the embedding of the tokens
  Embedding positions;        ///< the embedding of their positions
  Dropout dropout;            ///< the dropout of the sum of both
  TransformerEncoder blocks;  ///< the layers and the last norm
  Linear output;              ///< the layer that gives the logits, without a bias
};

}  // namespace ferrite::nn
