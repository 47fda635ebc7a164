// Statistics of sorted values, and counts. NaN counts as larger than every number, and a row with a
// NaN has it for its median and quantiles, except for the functions whose name begins with nan. The
// gradient goes to the elements that were selected.
#pragma once

#include <optional>

#include "ferrite/core/choice.h"
#include "ferrite/core/tensor.h"
#include "ferrite/ops/reduce.h"

namespace ferrite {

/// The median of all elements, 0-dimensional; of two middle elements the lower. ValueError for no
/// elements.
Tensor median(const Tensor& t);
/// The medians along `dim`, and their indices, int64: the shape of t without `dim`, which keepdim
/// leaves as size 1. IndexError for a dimension that t does not have.
ValuesIndices median(const Tensor& t, int dim, bool keepdim = false);
/// The median of those elements that are not NaN.
Tensor nanmedian(const Tensor& t);
ValuesIndices nanmedian(const Tensor& t, int dim, bool keepdim = false);
/// The k-th smallest elements along `dim`, and their indices, int64, shaped as for median().
/// ValueError unless k is from 1 to the size.
ValuesIndices kthvalue(const Tensor& t, std::int64_t k, int dim = -1, bool keepdim = false);
/// The most frequent elements along `dim`, the smallest of equally frequent ones, and the index,
/// int64, where each occurs last; shaped as for median().
ValuesIndices mode(const Tensor& t, int dim = -1, bool keepdim = false);

/// What a quantile between two elements is: linear in the distance, the lower, the higher, their
/// mean (midpoint), or the nearer (of equally near ones that of even rank).
enum class Interpolation : std::uint8_t { linear, lower, higher, midpoint, nearest };
template <>
struct detail::ChoiceNames<Interpolation> {
  static constexpr const char* kOption = "interpolation";
  static constexpr std::pair<const char*, Interpolation> kNames[] = {
      {"linear", Interpolation::linear},
      {"lower", Interpolation::lower},
      {"higher", Interpolation::higher},
      {"midpoint", Interpolation::midpoint},
      {"nearest", Interpolation::nearest}};
};
/// The element of rank q (n - 1) among the n sorted ones: of all elements, 0-dimensional, or along
/// `dim`, which keepdim leaves as size 1. ValueError unless q is in [0, 1], and for no elements;
/// DTypeError for other than floating types.
///
///   Tensor limit = quantile(x, 0.95);
Tensor quantile(const Tensor& t, double q, std::optional<int> dim = {}, bool keepdim = false,
                Choice<Interpolation> interpolation = Interpolation::linear);
/// The same for each of `q`, floating and 1-dimensional, along a new first dimension: [q, *]. q is
/// in [0, 1]; values outside count as the nearest of these. ValueError for a NaN in a q on the
/// host.
Tensor quantile(const Tensor& t, const Tensor& q, std::optional<int> dim = {}, bool keepdim = false,
                Choice<Interpolation> interpolation = Interpolation::linear);
/// The quantile of those elements that are not NaN.
Tensor nanquantile(const Tensor& t, double q, std::optional<int> dim = {}, bool keepdim = false,
                   Choice<Interpolation> interpolation = Interpolation::linear);
Tensor nanquantile(const Tensor& t, const Tensor& q, std::optional<int> dim = {},
                   bool keepdim = false,
                   Choice<Interpolation> interpolation = Interpolation::linear);

/// How many elements are in each of `bins` equal parts of [min, max], or of their own range if both
/// are equal: [bins], in the dtype of t. `max` is in the last part. DTypeError for other than
/// floating types, ValueError for less than one bin and unless min <= max, both finite; on the host
/// also for an own range that is not finite, which on other devices counts nothing.
Tensor histc(const Tensor& t, std::int64_t bins = 100, double min = 0, double max = 0);
/// How often each of 0, 1, ... occurs in integers [n], or the sum of its `weights` [n]: as many as
/// the largest number + 1, and `minlength` or more. int64, or float32 for weights in float32, and
/// float64 for others. ValueError for negative numbers, DTypeError for other than integers,
/// ShapeError for other shapes. Waits for the device.
Tensor bincount(const Tensor& t, const Tensor& weights = {}, std::int64_t minlength = 0);

}  // namespace ferrite
