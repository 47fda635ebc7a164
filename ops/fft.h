// Discrete Fourier transforms, under the names and with the results of torch.fft, of any length.
//
// Input is float32, float64, complex64 or complex128; integers become the default type, and 16-bit
// types are a DTypeError. `n` and `s` are sizes of the signal: the input is cut, or padded with
// zeros, at its end. `norm` says where the factor 1/n is: "backward" (the default) in the inverse
// transform, "forward" in the other, "ortho" as 1/sqrt(n) in both. Differentiable, any number of
// times. Errors: ValueError for sizes below 1, an unknown norm, or dimensions given twice;
// IndexError for dimensions out of range; CudaError on a CUDA device without cuFFT.
#pragma once

#include <optional>
#include <string_view>

#include "ferrite/core/tensor.h"

namespace ferrite::fft {

/// The number of points; the input's size unless it is given.
using Length = std::optional<std::int64_t>;
/// Which direction of the transform is divided by the number of points: "backward", "ortho" (both,
/// by its root) or "forward".
using Norm = std::optional<std::string_view>;

// ---- One dimension
/// The complex discrete Fourier transform of one dimension.
Tensor fft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The inverse of fft().
Tensor ifft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The first n / 2 + 1 frequencies of a real signal; the others are their conjugates.
Tensor rfft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The inverse: `n` real numbers, by default 2 (size - 1).
Tensor irfft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The n real frequencies of a signal of which one half is given, the other being its conjugate.
Tensor hfft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The inverse of hfft(): the first n / 2 + 1 frequencies of real values.
Tensor ihfft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});

// ---- Several dimensions: `dim`, else as many of the last ones as `s` has sizes, else all. A size
// of -1 is the input's. The real transforms halve the last of them.
/// The complex discrete Fourier transform of two dimensions.
Tensor fft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// The inverse of fft2().
Tensor ifft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// The transform of real values over two dimensions; of the last one the first n / 2 + 1
/// frequencies are kept.
Tensor rfft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// The inverse of rfft2(): real values.
Tensor irfft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// The complex discrete Fourier transform of any dimensions.
Tensor fftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});
/// The inverse of fftn().
Tensor ifftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});
/// The transform of real values over any dimensions; of the last one the first n / 2 + 1
/// frequencies are kept.
Tensor rfftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});
/// The inverse of rfftn(): real values.
Tensor irfftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});

// ---- Helpers
/// The frequencies of fft(): 0, 1, ..., -2, -1 over n d, for samples `d` apart.
Tensor fftfreq(std::int64_t n, double d = 1, const TensorOptions& options = {});
/// The frequencies of rfft(): 0, 1, ..., n / 2 over n d.
Tensor rfftfreq(std::int64_t n, double d = 1, const TensorOptions& options = {});
/// Moves frequency 0 to the middle of the dimensions, by default of all.
Tensor fftshift(const Tensor& x, const Dims& dim = {});
/// Undoes fftshift().
Tensor ifftshift(const Tensor& x, const Dims& dim = {});

}  // namespace ferrite::fft
