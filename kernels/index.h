// Reading and writing by index. `index` is int64. A value out of range is reported on the stream as
// an IndexError, tagged with `op`, that names the value, its position and the dimension's size; the
// contents of `out` are then unspecified. Several values for one destination are applied in
// row-major order on every device and with any number of threads, so the value that remains, and
// every bit of a sum, is reproducible. (CUDA kernels use atomics only for sums of integers;
// otherwise they sort by destination or go in order.)
#pragma once

#include <algorithm>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// out[..., k, ...] = x[..., index[..., k, ...], ...] along `dim`; out and index of equal sizes,
/// x at least as large in the other dimensions.
FERRITE_KERNEL(gather, const char* op, const View& out, const View& x, const View& index, int dim);
/// out[..., index[..., k, ...], ...] = source[..., k, ...]; the last one wins.
FERRITE_KERNEL(scatter, const char* op, const View& out, const View& index, const View& source,
               int dim);
/// Like scatter, but adds to `out`. float32, float64 and integers.
FERRITE_KERNEL(scatter_add, const char* op, const View& out, const View& index, const View& source,
               int dim);

/// Like scatter, but out = what `how` makes of `out` and the sources. NaN wins over numbers.
enum class Scattered : std::uint8_t { prod, max, min };
FERRITE_KERNEL(scatter_reduce, const char* op, Scattered how, const View& out, const View& index,
               const View& source, int dim);

/// out[..., k, ...] = x[..., index[k], ...] along `dim`; index has one dimension.
FERRITE_KERNEL(index_select, const char* op, const View& out, const View& x, const View& index,
               int dim);
/// out[..., index[k], ...] += alpha * source[..., k, ...]. `out` is float32, float64 or integer;
/// `source` has the same dtype; for a float32 `out` it may also be float16 or bfloat16.
FERRITE_KERNEL(index_add, const char* op, const View& out, const View& index, const View& source,
               int dim, Scalar alpha);

/// out = mask ? value : x; equal sizes, `out` may be x.
FERRITE_KERNEL(masked_fill, const View& out, const View& x, const View& mask, Scalar value);

/// out (int64, one element) = the number of elements of x that are not 0.
FERRITE_KERNEL_OF("nonzero", count_nonzero, const View& out, const View& x);
/// out (int64 [count, x.ndim]) = the coordinates of the elements that are not 0, in row-major
/// order.
FERRITE_KERNEL(nonzero, const View& out, const View& x);

enum class Triangle : std::uint8_t { lower, upper };
/// Keeps the triangle of the last two dimensions and zeroes the rest; both contiguous.
FERRITE_KERNEL(triangle, const View& out, const View& x, Triangle part, std::int64_t diagonal);

/// Dispatches to the types that scatter_add, scatter_reduce and index_add add.
template <class F>
void dispatch_added(DType dtype, std::string_view op, F&& f) {
  dispatch_types<float, double, std::int64_t, std::int32_t, std::int16_t, std::int8_t,
                 std::uint8_t>(dtype, op, std::forward<F>(f));
}

// ---- For kernels

/// `x` with the sizes of `like` and no step along `dim`: the bases that indices count from.
inline View bases(const View& x, const View& like, int dim) {
  View v = x;
  std::copy_n(like.sizes, like.ndim, v.sizes);
  v.numel = like.numel;
  v.strides[dim] = 0;
  return v;
}

/// A 1-dimensional index as one of all dimensions of `like`.
inline View broadcast_index(const View& index, const View& like, int dim) {
  View v = like;
  v.data = index.data;
  v.dtype = index.dtype;
  std::fill_n(v.strides, v.ndim, std::int64_t{0});
  v.strides[dim] = index.strides[0];
  return v;
}

}  // namespace ferrite::kernels
