// Statistics of sorted values, and counts. NaN counts as larger than every number, and a row with a
// NaN has it for its median and quantiles, except for the functions whose name begins with nan. The
// gradient goes to the elements that were selected.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/reduce.h"

namespace ferrite {

/// The lower of the two middle elements, if there are two. ValueError for no elements.
Tensor median(const Tensor& t);
ValuesIndices median(const Tensor& t, int dim, bool keepdim = false);
/// The median of those elements that are not NaN.
Tensor nanmedian(const Tensor& t);
ValuesIndices nanmedian(const Tensor& t, int dim, bool keepdim = false);
/// The k-th smallest element, from 1 on (ValueError).
ValuesIndices kthvalue(const Tensor& t, std::int64_t k, int dim = -1, bool keepdim = false);
/// The most frequent element, the smallest of equally frequent ones, and the place where it occurs
/// last.
ValuesIndices mode(const Tensor& t, int dim = -1, bool keepdim = false);

/// What is between two elements: linear in the distance, the lower, the higher, their mean, or the
/// nearer (of equally near ones that of even rank).
enum class Interpolation : std::uint8_t { linear, lower, higher, midpoint, nearest };
/// The element of rank q (n - 1) among the n sorted ones. ValueError unless q is in [0, 1], and for
/// no elements. Floating types (DTypeError).
Tensor quantile(const Tensor& t, double q, std::optional<int> dim = {}, bool keepdim = false,
                Interpolation interpolation = Interpolation::linear);
/// For each of `q`, 1-dimensional and in [0, 1] (values outside count as the nearest of these),
/// along a new first dimension.
Tensor quantile(const Tensor& t, const Tensor& q, std::optional<int> dim = {}, bool keepdim = false,
                Interpolation interpolation = Interpolation::linear);
/// The quantile of those elements that are not NaN.
Tensor nanquantile(const Tensor& t, double q, std::optional<int> dim = {}, bool keepdim = false,
                   Interpolation interpolation = Interpolation::linear);
Tensor nanquantile(const Tensor& t, const Tensor& q, std::optional<int> dim = {},
                   bool keepdim = false, Interpolation interpolation = Interpolation::linear);

/// How many elements are in each of `bins` equal parts of [min, max], or of their own range if both
/// are equal; `max` is in the last one. Floating types (DTypeError), in which counts are given.
Tensor histc(const Tensor& t, std::int64_t bins = 100, double min = 0, double max = 0);
/// How often each of 0, 1, ... occurs, or the sum of its `weights`, of the same size: int64, or
/// float32 for weights in float32, and float64 for others. As many as the largest number + 1, and
/// `minlength` or more. ValueError for negative numbers, DTypeError for what are no integers. Waits
/// for the device.
Tensor bincount(const Tensor& t, const Tensor& weights = {}, std::int64_t minlength = 0);

}  // namespace ferrite
