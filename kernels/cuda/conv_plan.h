// The decomposition of a convolution into correlations.
#pragma once

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/cuda/conv_geometry.h"
#include "ferrite/kernels/cuda/store_order.h"
#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cuda::native {

/// The correlations of one launch: a range of images, all groups, some phases.
struct ConvLaunch {
  ConvGeometry g;
  void *to, *from;         // the first elements of this launch
  std::int64_t batches;    // groups and phases
  std::int64_t positions;  // the most that a phase has
  std::int64_t taps;       // the same
  // Whether the channels of each group consist of whole chunks (in_chunks()); for the kernel, those
  // of `from`.
  bool to_chunks, from_chunks, kernel_chunks;
  Activation activation = Activation::none;  // of the results
};

/// The number of channels per copy of an operand of the tensor cores.
inline constexpr std::int64_t kChannelChunk = 8;

/// Whether dimension `d` of `v` is dense and each group of `channels` of it consists of whole,
/// aligned chunks, so that the tensor cores can use it without a copy.
bool in_chunks(const View& v, int d, std::int64_t channels);

inline constexpr std::int64_t kMostPositions = (std::int64_t{1} << 31) - 1;

/// The launches of out = input * weight, of up to `most_positions` each.
std::vector<ConvLaunch> forward_launches(const View& out, const View& input, const View& weight,
                                         const ConvParams& params,
                                         std::int64_t most_positions = kMostPositions);
/// The launches of the gradient with respect to the input: `to` is grad_input.
std::vector<ConvLaunch> backward_launches(const View& grad_input, const View& grad,
                                          const View& weight, const ConvParams& params,
                                          std::int64_t most_positions = kMostPositions);

/// The order in which results are stored, `run` at a time if they are packed; rows are channels.
StoreOrder store_order(const ConvLaunch& launch, std::size_t itemsize, int run);

}  // namespace ferrite::kernels::cuda::native
