// Joining outputs of devices on one of them (torch.nn.parallel.gather).
#pragma once

#include <span>
#include <vector>

#include "core/tensor.h"
#include "parallel/data_parallel/nested.h"

namespace ferrite::parallel {

/// The tensors one after another along `dim`, on `target`. Tensors without dimensions become a
/// vector with one element each, as losses that replicas computed. They are written straight into
/// their places, by copies that run beside the work of the devices. Differentiable: each tensor
/// gets its part of the gradient on its device. ShapeError where the sizes of other dimensions
/// differ, DTypeError where the dtypes do.
Tensor gather(std::span<const Tensor> tensors, const Device& target, int dim = 0);

// template <class T>
// T gather(std::span<const T> values, const Device& target, int dim = 0);
//   Any value (nested.h), tensor by tensor; all must have the same form (ValueError: lengths of
//   vectors, keys of maps, presence of optionals). What is no tensor is that of the first.

}  // namespace ferrite::parallel
