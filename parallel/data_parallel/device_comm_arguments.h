// What transports ask of the tensors that they are given.
#pragma once

#include <span>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite::parallel::dp {

/// ValueError for an undefined tensor, DeviceError for one that is not on `root`.
void check_broadcast(std::span<const Tensor> tensors, const Device& root);

/// ValueError where there are more lists than devices from `first` on, or lists of several lengths;
/// DeviceError, DTypeError, ShapeError where a part is not on its device, or parts of one number
/// are of several types or shapes. Returns, of each number, the first part that is defined.
std::vector<Tensor> check_reduce_add(std::span<const std::vector<Tensor>> parts,
                                     std::span<const Device> devices, int first);

}  // namespace ferrite::parallel::dp
