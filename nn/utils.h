// Parameters as one vector, as torch.nn.utils has it.
#pragma once

#include <span>

#include "ferrite/core/tensor.h"

namespace ferrite::nn::utils {

/// All elements in order, one after another: 1-dimensional, differentiable. ValueError for none;
/// DTypeError and DeviceError unless all agree.
Tensor parameters_to_vector(std::span<const Tensor> parameters);
/// The other way round: copies the values into the parameters, in place. ShapeError unless there
/// are as many.
void vector_to_parameters(const Tensor& vector, std::span<const Tensor> parameters);

}  // namespace ferrite::nn::utils
