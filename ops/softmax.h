// softmax and its logarithm, along any dimension.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// exp(x) / sum(exp(x)) along `dim`, computed from x - max(x). Floating types (DTypeError); with
/// `dtype`, `t` is converted first. 16-bit types compute in float32. Differentiable, to any order.
///
///   Tensor p = softmax(logits, -1);  // rows sum up to 1
Tensor softmax(const Tensor& t, int dim, std::optional<DType> dtype = {});
/// softmax(-x)
Tensor softmin(const Tensor& t, int dim, std::optional<DType> dtype = {});
/// x - log(sum(exp(x))) along `dim`.
Tensor log_softmax(const Tensor& t, int dim, std::optional<DType> dtype = {});

}  // namespace ferrite
