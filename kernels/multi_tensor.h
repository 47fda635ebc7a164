// Operations on many arrays in one pass, for lists of mostly small tensors such as a model's
// gradients or the transfers between devices.
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

/// x = 0; any dtype.
FERRITE_KERNEL(zero_all, const FlatTensors& tensors);
/// x *= scale (float64, one element).
FERRITE_KERNEL(scale_all, const FlatTensors& tensors, const View& scale);
/// x = min(max(x, -limit), limit); NaN stays.
FERRITE_KERNEL(clamp_all, const FlatTensors& tensors, double limit);
/// to = from * inv_scale, array by array; `found_inf` becomes 1 if an element of `from` is infinite
/// or NaN, and otherwise keeps its value. Both point to one number on the device; null means a
/// factor of 1, or no check. The dtypes are equal, or one is float32 and the other has 16 bits;
/// `to` and `from` may be the same arrays. Unscales gradients and converts master weights.
FERRITE_KERNEL(unscale_all, const FlatTensors& to, const FlatTensors& from, const float* inv_scale,
               float* found_inf);
/// Only the check: `found_inf` becomes 1 if an element of the lists is infinite or NaN, and
/// otherwise keeps its value.
FERRITE_KERNEL(check_finite, const std::vector<FlatTensors>& lists, float* found_inf);

// ---- Norms

/// out (float64, one element) = the sum of |x|^p over all elements, or the largest |x| if p is
/// infinite. Summed in float64, always in the same order.
FERRITE_KERNEL(sum_of_powers, const FlatTensors& tensors, double p, const View& out);
/// each[i] (float64, contiguous, one element per array) = (sum |x|^p)^(1/p) of array i, or its
/// largest |x| if p is infinite; `all` (float64, one element, optional) = the norm of all arrays as
/// one.
FERRITE_KERNEL(norms, const FlatTensors& tensors, double p, const View& each, const View& all);
/// The name under which a norm that is not finite is reported.
inline constexpr const char* kNormOp = "total_norm of the gradients";
/// norm = sums^(1/p) of the total (for p infinite: the largest) of `sums`; scale = min(1, max_norm
/// / (norm + 1e-6)). Each is one float64. With `check`, a norm that is not finite gives a scale of
/// 1 and is reported as a ValueError; for a device, that is thrown when the host waits for the
/// stream.
FERRITE_KERNEL(clip_scale, const std::vector<const double*>& sums, double p, double max_norm,
               const View& norm, const View& scale, bool check);

// ---- Copies and sums

struct CopyPart {
  void* to;
  const void* from;
  std::int64_t bytes;
};

/// Copies each `from` to its `to`: dense ranges that do not overlap, at any addresses that the
/// device of `stream` can access.
FERRITE_KERNEL(copy_parts, const std::vector<CopyPart>& parts);

/// out = inputs[first] + ... + inputs[first + count - 1], of `numel` elements each, all dense.
struct SumPart {
  void* out;
  std::int64_t numel;
  std::int32_t first, count;  ///< count is 1 to 65
};

/// Computes all sums in one pass, each in the order of its inputs. 16-bit types are added in
/// float32 and rounded once; integers wrap around. An input may be the result itself. Any dtype but
/// bool.
FERRITE_KERNEL_FUNCTION(sum_parts, DType dtype, const std::vector<SumPart>& parts,
                        const std::vector<const void*>& inputs);

}  // namespace ferrite::kernels
