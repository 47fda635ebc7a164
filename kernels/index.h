// Reading and writing by index. `index` is int64; a value out of range is an IndexError tagged with
// `op` naming it, its position and the dimension's size, and then what was written is unspecified.
// Where several values meet in one place they do so in row-major order, whatever the thread count
// and on every device: what stays, and every bit of a sum, is the same each time. (CUDA kernels use
// atomics for sums of integers alone, and else sort by destination or walk in order.)
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// out[..., k, ...] = x[..., index[..., k, ...], ...] along `dim`; out and index of equal sizes,
/// x at least as large in the other dimensions.
FERRITE_KERNEL(gather, const char* op, const View& out, const View& x, const View& index, int dim);
/// out[..., index[..., k, ...], ...] = source[..., k, ...]; the last one wins.
FERRITE_KERNEL(scatter, const char* op, const View& out, const View& index, const View& source,
               int dim);
/// As scatter, but adds. float32, float64 and integers.
FERRITE_KERNEL(scatter_add, const char* op, const View& out, const View& index, const View& source,
               int dim);

/// out[..., k, ...] = x[..., index[k], ...] along `dim`; index has one dimension.
FERRITE_KERNEL(index_select, const char* op, const View& out, const View& x, const View& index,
               int dim);
/// out[..., index[k], ...] += alpha * source[..., k, ...]. `out` is float32, float64 or integer;
/// the source of a float32 `out` may be float16 or bfloat16 as well.
FERRITE_KERNEL(index_add, const char* op, const View& out, const View& index, const View& source,
               int dim, Scalar alpha);

/// out = mask ? value : x; equal sizes, `out` may be x.
FERRITE_KERNEL(masked_fill, const View& out, const View& x, const View& mask, Scalar value);

/// out (one int64) = how many elements of x are not 0.
FERRITE_KERNEL_OF("nonzero", count_nonzero, const View& out, const View& x);
/// out [count, x.ndim] = their coordinates in row-major order.
FERRITE_KERNEL(nonzero, const View& out, const View& x);

enum class Triangle : std::uint8_t { lower, upper };
/// Keeps the triangle of the last two dimensions and zeroes the rest; both contiguous.
FERRITE_KERNEL(triangle, const View& out, const View& x, Triangle part, std::int64_t diagonal);

}  // namespace ferrite::kernels
