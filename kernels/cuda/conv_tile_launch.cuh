// Launches of tiled convolutions.
#pragma once

#include "ferrite/kernels/cuda/conv_plan.h"
#include "ferrite/kernels/cuda/conv_tiles.cuh"
#include "ferrite/kernels/cuda/tile_launch.cuh"

namespace ferrite::kernels::cuda::native {

/// One launch of a correlation, with its filter and its bias [channels of `to`] or null.
template <class S, class T>
struct ConvWork {
  const ConvLaunch& launch;
  const S* kernel;
  const S* bias;
  std::int64_t bias_step;

  TileSizes sizes() const { return {launch.g.outs, launch.positions, launch.taps, launch.batches}; }
  TileOutput<S, T, PositionMap> output(int run) const {
    TileOutput<S, T, PositionMap> out{static_cast<S*>(launch.to), {launch.g}, {}};
    out.epilogue.bias = bias;
    out.epilogue.bias_row_step = bias_step;
    out.epilogue.bias_group_step = launch.g.outs * bias_step;
    out.epilogue.activation = launch.activation;
    out.order = store_order(launch, sizeof(S), run);
    return out;
  }
};

/// to = from * kernel + bias.
template <class Tile, bool ChannelsLast, class T>
void run_correlation(const Stream& stream, const char* name, const ConvWork<T, T>& work) {
  using Filter = ConvOperand<T, ConvSide::filter, true>;
  using Images = ConvOperand<T, ConvSide::positions, ChannelsLast>;
  const TileSizes sizes = work.sizes();
  launch_tiles<Tile>(stream, name,
                     tile_product<Tile, Filter, Images, TileOutput<T, T, PositionMap>>,
                     Filter{work.kernel, work.launch.g},
                     Images{static_cast<const T*>(work.launch.from), work.launch.g},
                     work.output(Tile::kRun), sizes, plan_parts<Tile>(sizes));
}

/// The sums over a part of the images for the gradient with respect to the filter.
template <class Tile, bool ChannelsLast, class T>
void run_weight_gradient(const Stream& stream, const char* name, const ConvLaunch& launch,
                         T* grad_kernel, bool accumulate) {
  using Channels = ConvOperand<T, ConvSide::channels, !ChannelsLast>;
  using Images = ConvOperand<T, ConvSide::taps, !ChannelsLast>;
  const TileSizes sizes{launch.g.outs, launch.taps, launch.positions, launch.batches};
  TileOutput<T, T, TapMap> out{grad_kernel, {launch.g}, {}};
  out.epilogue.beta = accumulate ? 1 : 0;
  launch_tiles<Tile>(stream, name, tile_product<Tile, Channels, Images, TileOutput<T, T, TapMap>>,
                     Channels{static_cast<const T*>(launch.to), launch.g},
                     Images{static_cast<const T*>(launch.from), launch.g}, out, sizes,
                     plan_parts<Tile>(sizes));
}

}  // namespace ferrite::kernels::cuda::native
