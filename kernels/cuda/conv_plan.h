// From the views of a convolution to the correlations that make it up.
#pragma once

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/cuda/conv_geometry.h"
#include "ferrite/kernels/cuda/store_order.h"
#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cuda::native {

/// A launch's worth of correlations: a range of images, all groups, some phases.
struct ConvLaunch {
  ConvGeometry g;
  void *to, *from;         // their first element here
  std::int64_t batches;    // groups and phases
  std::int64_t positions;  // the most that a phase has
  std::int64_t taps;       // the same
  // Whether the channels that a group has come in chunks; for the kernel, those of `from`.
  bool to_chunks, from_chunks, kernel_chunks;
  Activation activation = Activation::none;  // of the results
};

/// Channels that tensor cores' operands are copied by.
inline constexpr std::int64_t kChannelChunk = 8;

/// Whether dimension `d` of `v` lies densely, and in whole, aligned chunks for each group of
/// `channels` of it: what the tensor cores are fed from without a detour.
bool in_chunks(const View& v, int d, std::int64_t channels);

inline constexpr std::int64_t kMostPositions = (std::int64_t{1} << 31) - 1;

/// The launches of out = input * weight, of up to `most_positions` each.
std::vector<ConvLaunch> forward_launches(const View& out, const View& input, const View& weight,
                                         const ConvParams& params,
                                         std::int64_t most_positions = kMostPositions);
/// Of the gradient by the input: `to` is grad_input.
std::vector<ConvLaunch> backward_launches(const View& grad_input, const View& grad,
                                          const View& weight, const ConvParams& params,
                                          std::int64_t most_positions = kMostPositions);

/// How results are stored, `run` at a time where they are packed; rows are channels.
StoreOrder store_order(const ConvLaunch& launch, std::size_t itemsize, int run);

}  // namespace ferrite::kernels::cuda::native
