// Activations that products and convolutions apply to their results on the way out.
#pragma once

#include <cstdint>

#include "ferrite/kernels/unary.h"

namespace ferrite::kernels {

enum class Activation : std::uint8_t { none, relu, gelu, gelu_tanh };

/// The same as an op of its own; not for `none`.
inline UnaryOp unary_op(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return UnaryOp::gelu;
    case Activation::gelu_tanh:
      return UnaryOp::gelu_tanh;
    default:
      return UnaryOp::relu;
  }
}

}  // namespace ferrite::kernels
