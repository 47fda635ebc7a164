// Parameters as one vector, as torch.nn.utils has it.
#pragma once

#include <span>

#include "ferrite/core/tensor.h"

namespace ferrite::nn::utils {

/// All elements in order, one after another: [n], n being the number of all elements.
/// Differentiable. ValueError for none; DTypeError and DeviceError unless all agree.
///
///   Tensor all = nn::utils::parameters_to_vector(model.parameters());
Tensor parameters_to_vector(std::span<const Tensor> parameters);
/// The other way round: copies the values of a vector [n] into the parameters, in place and in
/// order. ShapeError unless there are as many.
void vector_to_parameters(const Tensor& vector, std::span<const Tensor> parameters);

}  // namespace ferrite::nn::utils
