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
/// The complex discrete Fourier transform of one dimension, whose size becomes n. A real x is
/// converted; rfft() is twice as fast for it. Errors are at the top of the header.
///
///   fft::fft(tensor({1.0, 0.0, 0.0, 0.0}));  // 1, 1, 1, 1
Tensor fft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The inverse of fft(), complex.
Tensor ifft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The first n / 2 + 1 frequencies of a real signal of n numbers, complex; the others are their
/// conjugates. DTypeError for a complex x.
///
///   Tensor spectrum = fft::rfft(zeros({8, 400}));  // complex64 [8, 201]
Tensor rfft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The inverse of rfft(): `n` real numbers, by default 2 (size - 1); an odd length must be given.
Tensor irfft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The n real frequencies, by default 2 (size - 1), of a signal of which the first n / 2 + 1
/// numbers are given; the others are their conjugates.
Tensor hfft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The inverse of hfft(): n / 2 + 1 complex numbers of n real frequencies. DTypeError for a complex
/// x.
Tensor ihfft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});

// ---- Several dimensions: `dim`, else as many of the last ones as `s` has sizes, else all. A size
// of -1 is the input's. The real transforms halve the last of them.
/// The complex discrete Fourier transform of two dimensions, by default the last: fftn() of them.
Tensor fft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// The inverse of fft2().
Tensor ifft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// The transform of real values over two dimensions; of the last one the first n / 2 + 1
/// frequencies are kept.
Tensor rfft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// The inverse of rfft2(): real values.
Tensor irfft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// The complex discrete Fourier transform of the dimensions `dim`, with the sizes `s`, of which -1
/// is the input's. Without `dim` it is that of the last dimensions, as many as `s` has, or of all.
/// ShapeError unless `s` and `dim` have as many entries.
Tensor fftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});
/// The inverse of fftn().
Tensor ifftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});
/// The transform of real values over any dimensions; of the last one the first n / 2 + 1
/// frequencies are kept.
Tensor rfftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});
/// The inverse of rfftn(): real values.
Tensor irfftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});

// ---- Helpers
/// The frequencies of fft(), [n]: 0, 1, ..., -2, -1 over n d, for samples `d` apart. ValueError for
/// an n below 1, DTypeError unless the dtype is floating.
///
///   fft::fftfreq(4);  // 0, 0.25, -0.5, -0.25
Tensor fftfreq(std::int64_t n, double d = 1, const TensorOptions& options = {});
/// The frequencies of rfft(), [n / 2 + 1]: 0, 1, ..., n / 2 over n d. Errors are those of
/// fftfreq().
Tensor rfftfreq(std::int64_t n, double d = 1, const TensorOptions& options = {});
/// A copy with frequency 0 moved to the middle of the dimensions, by default of all: each is rolled
/// by half of its size.
Tensor fftshift(const Tensor& x, const Dims& dim = {});
/// Undoes fftshift().
Tensor ifftshift(const Tensor& x, const Dims& dim = {});

}  // namespace ferrite::fft
