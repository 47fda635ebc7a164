#include "ferrite/kernels/cuda/conv_tile_launch.cuh"
#include "ferrite/kernels/cuda/conv_types.h"

namespace ferrite::kernels::cuda::native {

namespace {

using Many = Tile<float, 128, 128, 64, 32, 8, 8, 2>;
using Some = Tile<float, 64, 64, 32, 32, 8, 4, 4>;

template <bool ChannelsLast>
void gradient(const Stream& stream, const ConvLaunch& launch, float* grad_kernel, bool accumulate) {
  if (launch.g.outs > Some::kRows && launch.taps > Some::kColumns)
    run_weight_gradient<Many, ChannelsLast>(stream, "float_weight_gradient", launch, grad_kernel,
                                            accumulate);
  else
    run_weight_gradient<Some, ChannelsLast>(stream, "float_weight_gradient_some", launch,
                                            grad_kernel, accumulate);
}

}  // namespace

void float_weight_gradient(const Stream& stream, const ConvLaunch& launch, const View& grad_kernel,
                           bool accumulate) {
  if (launch.g.channels_last)
    gradient<true>(stream, launch, grad_kernel.as<float>(), accumulate);
  else
    gradient<false>(stream, launch, grad_kernel.as<float>(), accumulate);
}

}  // namespace ferrite::kernels::cuda::native
