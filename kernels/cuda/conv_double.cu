#include "ferrite/kernels/cuda/conv_tile_launch.cuh"
#include "ferrite/kernels/cuda/conv_types.h"

namespace ferrite::kernels::cuda::native {

namespace {
using Square = Tile<double, 64, 64, 32, 32, 8, 4, 2>;
}  // namespace

void double_correlation(const Stream& stream, const ConvLaunch& launch, const View& kernel,
                        const View& bias) {
  const ConvWork<double, double> work{launch, kernel.as<double>(), bias.as<double>(),
                                      bias.strides[0]};
  if (launch.g.channels_last)
    run_correlation<Square, true>(stream, "double_correlation", work);
  else
    run_correlation<Square, false>(stream, "double_correlation", work);
}

void double_weight_gradient(const Stream& stream, const ConvLaunch& launch, const View& grad_kernel,
                            bool accumulate) {
  const auto to = grad_kernel.as<double>();
  if (launch.g.channels_last)
    run_weight_gradient<Square, true>(stream, "double_weight_gradient", launch, to, accumulate);
  else
    run_weight_gradient<Square, false>(stream, "double_weight_gradient", launch, to, accumulate);
}

}  // namespace ferrite::kernels::cuda::native
