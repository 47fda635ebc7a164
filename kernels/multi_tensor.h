// Many arrays in one pass: the gradients of a model, or what devices send one another, are mostly
// small tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// Dense arrays of one dtype.
struct FlatTensors {
  struct Array {
    void* data;
    std::int64_t numel;
  };
  std::vector<Array> arrays;
  DType dtype = kFloat32;
};

/// x = 0, of any dtype.
FERRITE_KERNEL(zero_all, const FlatTensors& tensors);
/// x *= scale (float64, one element).
FERRITE_KERNEL(scale_all, const FlatTensors& tensors, const View& scale);
/// x = min(max(x, -limit), limit); NaN stays.
FERRITE_KERNEL(clamp_all, const FlatTensors& tensors, double limit);
/// to = from * inv_scale, array by array; `found_inf` becomes 1 where an element of `from` is
/// infinite or NaN, and stays what it was else. Both are single numbers; null: a factor of 1, no
/// check. The dtypes are equal, or one is float32 and the other has 16 bits; arrays may be the
/// same. What a loss scaler does to gradients, and how master weights are made.
FERRITE_KERNEL(unscale_all, const FlatTensors& to, const FlatTensors& from, const float* inv_scale,
               float* found_inf);
/// The check alone: `found_inf` becomes 1 where an element is infinite or NaN, and stays what it
/// was else.
FERRITE_KERNEL(check_finite, const FlatTensors& tensors, float* found_inf);

// ---- Norms

/// out (float64, one element) = the sum of |x|^p over all elements, or the largest |x| where p is
/// infinite. Summed in float64, always in the same order.
FERRITE_KERNEL(sum_of_powers, const FlatTensors& tensors, double p, const View& out);
/// each[i] (float64, contiguous, one an array) = (sum |x|^p)^(1/p) of array i, or its largest |x|;
/// `all` (float64, one element, may be absent) = that of all arrays as one.
FERRITE_KERNEL(norms, const FlatTensors& tensors, double p, const View& each, const View& all);
/// What a norm that is not finite is reported as.
inline constexpr const char* kNormOp = "total_norm of the gradients";
/// norm = sums^(1/p) of the added (or largest) `sums`; scale = min(1, max_norm / (norm + 1e-6)).
/// All float64 of one element. With `check` a norm that is not finite has a scale of 1, and is
/// reported: ValueError, from devices when their stream is waited for.
FERRITE_KERNEL(clip_scale, const std::vector<const double*>& sums, double p, double max_norm,
               const View& norm, const View& scale, bool check);

// ---- Copies and sums

struct CopyPart {
  void* to;
  const void* from;
  std::int64_t bytes;
};

/// Each `to` = its `from`: dense runs that do not overlap, at any addresses that `stream` reaches.
FERRITE_KERNEL(copy_parts, const std::vector<CopyPart>& parts);

/// out = inputs[first] + ... + inputs[first + count - 1], of `numel` elements each, lying densely.
struct SumPart {
  void* out;
  std::int64_t numel;
  std::int32_t first, count;  ///< count is 1 to 65
};

/// Each sum in one pass, always added in the order of its inputs; 16-bit types are added in float32
/// and rounded once, integers wrap around. An input may be the result itself. For all but bool.
FERRITE_KERNEL_FUNCTION(sum_parts, DType dtype, const std::vector<SumPart>& parts,
                        const std::vector<const void*>& inputs);

}  // namespace ferrite::kernels
