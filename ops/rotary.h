// Rotary position embedding (Su et al., "RoFormer", 2021).
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite {

/// The options of rotary_embedding().
struct RotaryEmbeddingOptions {
  /// Pairs are elements 2 i and 2 i + 1 of a row, as in the paper and in Llama; otherwise i and
  /// i + E / 2, as in GPT-NeoX and in most converted weights.
  bool interleaved = false;
  double base = 10000;      ///< the base of the rotations' frequencies
  std::int64_t offset = 0;  ///< the first position, where earlier ones are in a cache
  /// int64 or int32, broadcasting to [..., L]; default: offset, offset + 1, ...
  Tensor positions = {};
};

/// Rotates pair i of each row of x [..., L, E] by the angle position * base^(-2 i / E), so that the
/// product of a query and a key depends on the distance of their positions alone. Floating dtypes
/// (DTypeError), an even E (ShapeError). Angles are computed in float64; the result has x's dtype.
Tensor rotary_embedding(const Tensor& x, const RotaryEmbeddingOptions& options = {});

}  // namespace ferrite
