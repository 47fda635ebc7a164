// Discrete Fourier transforms of any length, by pocketfft on the host and cuFFT on CUDA devices.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

struct Fft {
  Dims dims;             ///< along which to transform; one for real input or output
  bool inverse = false;  ///< whether the exponents have the sign +
  double factor = 1;     ///< of the result
};

/// out[k] = factor sum_j in[j] exp(-2 pi i j k / n), or with the other sign, in the parts' type,
/// float32 or float64. The types of the views, of any strides, say what is computed:
///   complex to complex  equal sizes; `out` may be `in`
///   real to complex     `out` has the first n / 2 + 1 of `in`'s n frequencies; forward alone
///   complex to real     `in` has the first n / 2 + 1 frequencies of `out`; inverse alone. The
///                       imaginary part of frequencies 0 and n / 2 counts as 0.
/// CudaError where a CUDA device has no cuFFT.
FERRITE_KERNEL_FUNCTION(fft, const Fft& transform, const View& out, const View& in);

}  // namespace ferrite::kernels
