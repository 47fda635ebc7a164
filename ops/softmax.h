// softmax and its logarithm, along any dimension.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// exp(x) / sum(exp(x)) along `dim`, computed from x - max(x), in the shape of `t`. With `dtype`,
/// `t` is converted first. 16-bit types compute in float32. DTypeError for other than floating
/// types, IndexError for a dimension that t does not have. Differentiable, to any order.
///
///   Tensor p = softmax(logits, -1);  // rows sum up to 1
Tensor softmax(const Tensor& t, int dim, std::optional<DType> dtype = {});
/// softmax(-x) along `dim`. Arguments and errors as for softmax().
Tensor softmin(const Tensor& t, int dim, std::optional<DType> dtype = {});
/// log(softmax(x)) along `dim`, computed as x - log(sum(exp(x))), without overflow and without
/// forming the softmax. Arguments and errors as for softmax(). nll_loss() takes it; cross_entropy()
/// contains it.
Tensor log_softmax(const Tensor& t, int dim, std::optional<DType> dtype = {});

}  // namespace ferrite
