// Activations that matrix products and convolutions can apply to their results before storing them.
#pragma once

#include <cstdint>

#include "ferrite/kernels/unary.h"

namespace ferrite::kernels {

enum class Activation : std::uint8_t { none, relu, gelu, gelu_tanh };

/// The elementwise operation that computes `activation`, which must not be `none`.
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
