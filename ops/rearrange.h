// Padding, and copies in another order.
#pragma once

#include <utility>
#include <vector>

#include "ferrite/core/choice.h"
#include "ferrite/core/tensor.h"
#include "ferrite/kernels/pad.h"

namespace ferrite {

using kernels::PadMode;  // constant, reflect, replicate, circular
template <>
struct detail::ChoiceNames<PadMode> {
  static constexpr const char* kOption = "pad";
  static constexpr std::pair<const char*, PadMode> kNames[] = {{"constant", PadMode::constant},
                                                               {"reflect", PadMode::reflect},
                                                               {"replicate", PadMode::replicate},
                                                               {"circular", PadMode::circular},
                                                               {"zeros", PadMode::constant}};
};
/// Pads the last dimensions: pairs (before, after) from the last dimension backwards, as
/// torch.nn.functional.pad. The mode says with what: `value` (constant), the mirror image without
/// the border (reflect), the border (replicate) or the opposite end (circular). Negative amounts
/// crop (constant only). ValueError for an odd number of amounts, for reflect unless they are below
/// the size, for circular unless they are at most the size; ShapeError for more pairs than
/// dimensions, or if a size would be negative.
///
///   Tensor y = pad(randn({3, 8, 8}), {1, 1, 2, 0});  // [3, 10, 10]: left, right, top, bottom
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& amounts,
           Choice<PadMode> mode = PadMode::constant, Scalar value = 0);

/// A copy with the elements in reverse order along `dims`: `flip(x, {-1})` mirrors images left to
/// right. IndexError for a dimension that x does not have, ValueError for one given twice.
Tensor flip(const Tensor& x, const Dims& dims);
/// A copy in which the elements along dims[i] are shifted by shifts[i], those that leave the end
/// entering at the beginning. Without `dims`, one shift of the flattened tensor. ValueError unless
/// there are as many shifts as dimensions, IndexError for a dimension that x does not have.
///
///   Tensor y = roll(arange(4), {1}, {0});  // 3, 0, 1, 2
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {});

/// A copy with the lower triangles of the matrices in the last two dimensions, and zeros where
/// column > row + diagonal. ShapeError below two dimensions.
///
///   Tensor causal = tril(ones({4, 4}, {.dtype = kBool}));  // what position i attends to: 0 to i
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
/// A copy with the upper triangles of the matrices in the last two dimensions, and zeros where
/// column < row + diagonal. ShapeError below two dimensions.
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace ferrite
