// A convolution as a vendor library receives it: dense, aligned operands of one layout. The code
// here decides whether to use a library and with which problem. It runs on the host and needs no
// library.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels {

/// The memory layout of images and weights: NCHW or NHWC.
enum class ConvLayout : std::uint8_t { channels_first, channels_last };

/// Everything that a plan depends on. `input`, `weight` and `out` name the convolution's operands
/// in every pass; `pass` says which of them is computed.
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
  bool has_stats = false;  // also computes each channel's sum and sum of squares
  bool adds = false;       // to what is there
  bool tf32 = true, deterministic = false;
  std::int64_t workspace_limit = 0;  // in bytes
  Operand input, weight, out;
  std::array<std::int64_t, 2> stride{1, 1}, dilation{1, 1}, before{0, 0}, after{0, 0};  // padding

  auto operator<=>(const ConvProblem&) const = default;
  /// The strides, in elements, of `operand` in `layout`.
  std::array<std::int64_t, 4> strides(const Operand& operand) const;
};

/// Whether `v` is dense in `layout`: its strides are those of the layout, except in dimensions of
/// one element.
bool lies_in(const View& v, ConvLayout layout);

/// The bytes from the first element of `v`, which is not empty, to the end of its last one.
std::size_t bytes_spanned(const View& v);

/// The layout of `v` ([N, C, H, W], dense in one of the layouts above) in the form that batch norm
/// takes.
ChannelLayout channel_layout(const View& v);

/// The layout in which the fewest elements have to be copied. At a tie it is channels-last for
/// 16-bit types, which tensor cores read in that layout, and channels-first otherwise.
ConvLayout layout_of(const View& input, const View& weight, const View& out);

/// Whether a library should compute a convolution of these operands: float32, float16 or bfloat16,
/// not empty, with sizes that fit into 32 bits, and with a padding after the input that a library
/// can express. Depthwise convolutions in NCHW are excluded, because libraries are no faster there
/// than our own kernel.
bool is_for_library(const View& input, const View& weight, const View& out,
                    const ConvParams& params);

/// The problem for a call that a library should compute. Operands in another layout are to be
/// copied, and copies count as aligned. The caller fills in the settings (tf32, ...).
ConvProblem problem_of(ConvPass pass, const View& input, const View& weight, const View& out,
                       const ConvParams& params);

}  // namespace ferrite::kernels
