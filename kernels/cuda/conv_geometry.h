// Convolutions as matrix products.
//
// A correlation maps images `from` to images `to`: it is the convolution itself, or a phase of its
// gradient with respect to the input (kernels/conv_axis.h). Its positions are the pixels of all
// `to` images of a phase, its taps those of the filter times the channels of `from`. Positions and
// taps are numbered with x first; if channels are adjacent in memory (`channels_last`), they come
// before x, and otherwise last.
#pragma once

#include <cstdint>

#include "ferrite/kernels/conv_axis.h"
#include "ferrite/kernels/cuda/divisor.cuh"

namespace ferrite::kernels::cuda {

/// One axis of a correlation, with up to kPhases phases.
struct ConvAxis {
  static constexpr int kPhases = 4;
  struct Phase {
    Divisor count, taps;      // at least 1
    std::uint32_t tap_count;  // may be 0
    int first;
    std::int64_t kernel_first, to_first;  // in elements
  };
  int stride, step, size;
  std::int64_t from_step, kernel_step, to_step;  // in elements
  Phase phases[kPhases];
};

/// A batch of correlations: groups, and for each the phases of both axes. Steps are in elements.
struct ConvGeometry {
  ConvAxis rows, columns;
  std::uint32_t row_phases, column_phases;
  std::uint32_t images, outs;  // channels of `to`, a group
  Divisor channels;            // of `from`, a group
  bool channels_last;
  std::int64_t from_image_step, from_channel_step, from_group_step;
  std::int64_t to_image_step, to_channel_step, to_group_step;
  std::int64_t kernel_out_step, kernel_channel_step, kernel_group_step;
};

}  // namespace ferrite::kernels::cuda
