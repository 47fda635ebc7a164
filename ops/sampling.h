// Drawing from logits: the next token of a text, and samples that have gradients.
#pragma once

#include <cstdint>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// The options of sample_logits() and filter_logits().
struct SamplingOptions {
  double temperature = 1;  ///< logits are divided by it; 0 takes the largest
  std::int64_t top_k = 0;  ///< not 0: only the k largest, and those equal to the last
  /// Below 1: only the fewest most probable classes whose probabilities add up to it (Holtzman et
  /// al., "The Curious Case of Neural Text Degeneration", 2020).
  double top_p = 1;
};

/// Logits [..., C], divided by the temperature, with -inf for those that must not be drawn: top_k
/// first, then top_p of the rest. ValueError for a negative temperature or top_k, or a top_p
/// outside (0, 1].
Tensor filter_logits(const Tensor& logits, const SamplingOptions& options);

/// int64 [...]: an index drawn from softmax(filter_logits(logits)) in each row, as the position of
/// the largest sum of a logit and a Gumbel variable (Gumbel 1954). Nothing is recorded on the tape.
Tensor sample_logits(const Tensor& logits, const SamplingOptions& options = {},
                     Generator* generator = nullptr);

/// softmax((logits + g) / tau) along `dim`, for Gumbel variables g (Jang et al., "Categorical
/// Reparameterization with Gumbel-Softmax", 2017). With `hard`, one-hot samples, whose gradient is
/// that of the softmax. ValueError unless tau > 0.
Tensor gumbel_softmax(const Tensor& logits, double tau = 1, bool hard = false, int dim = -1,
                      Generator* generator = nullptr);

}  // namespace ferrite
