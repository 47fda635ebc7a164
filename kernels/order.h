// Extrema with their positions, sorting, the k largest elements, and scans along one dimension.
//
// NaN counts as larger than every number when sorting, and is the extremum of either kind. Outputs
// have the input's sizes except along `dim`, and equal strides where there are two.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

enum class Extremum : std::uint8_t { min, max };

/// The first extremal element along `dim`, whose size must not be 0; the outputs have size 1 there.
/// `values` has the dtype of `in` (null data: not wanted); `indices` is int64.
FERRITE_KERNEL(arg_extremum, Extremum kind, const View& values, const View& indices, const View& in,
               int dim);

/// The outputs' size along `dim` is the number k of elements wanted: the k smallest in ascending
/// order (min), or the k largest in descending order (max). With the input's size, the whole
/// dimension is sorted. Equal elements keep their order.
FERRITE_KERNEL(sort, Extremum first, const View& values, const View& indices, const View& in,
               int dim);

/// What a scan computes of the elements up to each: their sum or product in the dtype of `out`
/// (that of a floating `in`, or int64); log(sum(exp)) of floating elements; or, as int64, the place
/// along `dim` of the last extremal one (of the last NaN).
enum class ScanOp : std::uint8_t { sum, prod, logsumexp, argmax, argmin };
/// All but sums are of float32, float64 and int64.
FERRITE_KERNEL(scan, ScanOp op, const View& out, const View& in, int dim);

}  // namespace ferrite::kernels
