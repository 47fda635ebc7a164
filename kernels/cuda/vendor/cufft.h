// Fourier transforms by cuFFT. The folders cufft/ and no_cufft/ define these; one of them is built.
#pragma once

#include <array>
#include <compare>

#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cuda::vendor {

/// `batch` transforms of contiguous data along the last `rank` dimensions, 1 to 3.
struct FftProblem {
  enum class Kind : std::uint8_t { c2c, r2c, c2r };
  Kind kind = Kind::c2c;
  DType part = kFloat32;  ///< float32 or float64
  int rank = 1;
  std::array<std::int64_t, 3> sizes{};  ///< of the signal
  std::int64_t batch = 1;

  friend auto operator<=>(const FftProblem&, const FftProblem&) = default;
};

/// Launches the transforms on the stream, without a factor. `in` and `out` are aligned to complex
/// numbers; c2r overwrites `in`. CudaError if cuFFT is not available.
void fft(const Stream& stream, const FftProblem& problem, bool inverse, void* out, void* in);

}  // namespace ferrite::kernels::cuda::vendor
