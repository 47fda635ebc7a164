#include "ferrite/kernels/cuda/conv_tile_launch.cuh"
#include "ferrite/kernels/cuda/conv_types.h"

namespace ferrite::kernels::cuda::native {

namespace {

// Tiles for different numbers of output channels.
using Many = Tile<float, 128, 128, 64, 32, 8, 8, 2>;
using Some = Tile<float, 64, 128, 64, 32, 8, 8, 3>;
using Few = Tile<float, 16, 128, 16, 32, 4, 4, 6>;

template <bool ChannelsLast>
void correlate(const Stream& stream, const ConvWork<float, float>& work) {
  const TileSizes sizes = work.sizes();
  if (sizes.rows <= Few::kRows)
    run_correlation<Few, ChannelsLast>(stream, "float_correlation_few", work);
  else if (sizes.rows <= Some::kRows || tiles_of<Many>(sizes) * sizes.batches < kEnoughBlocks / 2)
    run_correlation<Some, ChannelsLast>(stream, "float_correlation_some", work);
  else
    run_correlation<Many, ChannelsLast>(stream, "float_correlation", work);
}

}  // namespace

void float_correlation(const Stream& stream, const ConvLaunch& launch, const View& kernel,
                       const View& bias) {
  const ConvWork<float, float> work{launch, kernel.as<float>(), bias.as<float>(), bias.strides[0]};
  if (launch.g.channels_last)
    correlate<true>(stream, work);
  else
    correlate<false>(stream, work);
}

}  // namespace ferrite::kernels::cuda::native
