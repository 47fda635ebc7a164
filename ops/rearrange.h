// Padding, and copies in another order.
#pragma once

#include <string_view>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/kernels/pad.h"

namespace ferrite {

using kernels::PadMode;  // constant, reflect, replicate, circular
/// Pads the last dimensions: pairs (before, after) from the last dimension backwards, as
/// torch.nn.functional.pad. Negative amounts crop (constant only). reflect requires amounts below
/// the size, circular at most the size.
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& amounts,
           PadMode mode = PadMode::constant, Scalar value = 0);
/// The same, where `mode` is "constant", "reflect", "replicate" or "circular" (ValueError).
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& amounts, std::string_view mode,
           Scalar value = 0);

/// Reverses the order along the dimensions.
Tensor flip(const Tensor& x, const Dims& dims);
/// Shifts cyclically along the dimensions; without dimensions, shifts the flattened tensor.
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {});

/// The lower (upper) triangle of the last two dimensions: zero where column > row + diagonal
/// (column < row + diagonal).
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
/// The upper triangle of a matrix; zeros below.
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace ferrite
