// A convolution as a vendor's library is asked for it: dense, aligned operands of one layout. What
// a call becomes, and whether a library is asked at all, is decided here, on the host and without
// the library.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels {

/// Of images and of weights: NCHW or NHWC in the order of memory.
enum class ConvLayout : std::uint8_t { channels_first, channels_last };

/// Everything that a plan depends on. `input`, `weight` and `out` name the convolution's operands
/// in every pass; which of them is computed says the pass.
struct ConvProblem {
  struct Operand {
    std::array<std::int64_t, 4> sizes{};
    std::uint32_t alignment = 16;  // of the pointer, in bytes, up to 16
    auto operator<=>(const Operand&) const = default;
  };
  ConvPass pass = ConvPass::forward;
  ConvLayout layout = ConvLayout::channels_first;
  DType dtype = kFloat32;
  bool has_bias = false, has_relu = false;
  bool has_stats = false;  // each channel's sum and sum of squares too
  bool tf32 = true, deterministic = false;
  std::int64_t workspace_limit = 0;  // in bytes
  Operand input, weight, out;
  std::array<std::int64_t, 2> stride{1, 1}, dilation{1, 1}, before{0, 0}, after{0, 0};  // padding

  auto operator<=>(const ConvProblem&) const = default;
  /// In elements, of an operand of these sizes.
  std::array<std::int64_t, 4> strides(const Operand& operand) const;
};

/// Whether an operand lies in `layout`, densely: its strides are the layout's, but for dimensions
/// of one element.
bool lies_in(const View& v, ConvLayout layout);

/// `v`, [N, C, H, W] in one of these layouts, as batch norm takes it.
ChannelLayout channel_layout(const View& v);

/// The layout in which the fewest elements have to be copied: channels-last where there is no
/// difference and tensor cores read 16-bit types, else channels-first.
ConvLayout layout_of(const View& input, const View& weight, const View& out);

/// Whether a library is to be asked for a convolution of these: float32, float16 or bfloat16, not
/// empty, sizes that 32 bits hold, and a padding behind the input that a library can be told; not
/// depthwise ones of NCHW, for which libraries have nothing better than our own kernel.
bool is_for_library(const View& input, const View& weight, const View& out,
                    const ConvParams& params);

/// The problem of a call that is for a library. Operands that do not lie in its layout are copied,
/// and copies are aligned. The settings (tf32, ...) are the caller's to fill in.
ConvProblem problem_of(ConvPass pass, const View& input, const View& weight, const View& out,
                       const ConvParams& params);

}  // namespace ferrite::kernels
