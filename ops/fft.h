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

/// The number of points of a transform; the input's size unless it is given.
using Length = std::optional<std::int64_t>;
/// Where the factor is, for a transform of n points: "backward" (the default), 1/n in the inverse
/// transform; "forward", 1/n in the other; "ortho", 1/sqrt(n) in both. ValueError for other names.
using Norm = std::optional<std::string_view>;

// ---- One dimension
/// The discrete Fourier transform along `dim`: X[k] = sum over j of x[j] exp(-2 pi i j k / n), for
/// k from 0 to n - 1. The result is complex (complex64 of float32, complex128 of float64), in the
/// shape of x with size n along `dim`; x is cut or padded with zeros to n points. With the norm
/// "forward" it is divided by n, with "ortho" by sqrt(n).
///
/// DTypeError for 16-bit types, IndexError for a `dim` out of range, ValueError for n below 1 and
/// other norms.
///
///   Tensor x = randn({2, 100});
///   Tensor X = fft::fft(x);                         // complex64 [2, 100]
///   Tensor padded = fft::fft(x, 128, -1, "ortho");  // complex64 [2, 128]
Tensor fft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The inverse of fft(): x[j] = 1/n sum over k of X[k] exp(2 pi i j k / n); with the norm "forward"
/// it is not divided, with "ortho" by sqrt(n). Shape, dtype and errors as for fft().
Tensor ifft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// fft() of real values, of which it gives the first n / 2 + 1 frequencies; the others are their
/// conjugates. The result is complex, with size n / 2 + 1 along `dim`. DTypeError also for complex
/// values, other errors as for fft().
///
///   Tensor X = fft::rfft(randn({2, 100}));  // complex64 [2, 51]
Tensor rfft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The inverse of rfft(): real values (float32 of complex64), with size n along `dim`, by default
/// 2 (size - 1). For an odd number of values give n. Factors and errors as for ifft().
///
///   Tensor x = fft::irfft(X, 100);  // float32 [2, 100] of complex64 [2, 51]
Tensor irfft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// fft() of a signal of which the first n / 2 + 1 values are given, the others being their
/// conjugates: the frequencies are real, with size n along `dim`, by default 2 (size - 1). Factors
/// and errors as for fft().
Tensor hfft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});
/// The inverse of hfft(): the first n / 2 + 1 values, complex, of the signal with these n real
/// frequencies. Factors as for ifft(), errors as for rfft().
Tensor ihfft(const Tensor& x, Length n = {}, int dim = -1, Norm norm = {});

// ---- Several dimensions: `dim`, else as many of the last ones as `s` has sizes, else all. A size
// of -1 is the input's. The real transforms halve the last of them.
/// fftn() of two dimensions, by default the last ones.
///
///   Tensor X = fft::fft2(randn({3, 32, 32}));  // complex64 [3, 32, 32]
Tensor fft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// ifftn() of two dimensions, by default the last ones: the inverse of fft2().
Tensor ifft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// rfftn() of two dimensions, by default the last ones: real [..., H, W] gives complex
/// [..., H, W / 2 + 1].
Tensor rfft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// irfftn() of two dimensions, by default the last ones: the inverse of rfft2(), real [..., H, W]
/// of complex [..., H, W / 2 + 1] where W is even; otherwise give `s`.
Tensor irfft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// The discrete Fourier transform along several dimensions: fft() along each of `dim`, else along
/// as many of the last ones as `s` has sizes, else along all. `s` has the numbers of points, to
/// which x is cut or padded with zeros; -1 is the input's size. The result is complex, in the shape
/// of x with these sizes. `norm` is that of fft() with n the product of the sizes.
///
/// ShapeError if `s` has not as many sizes as `dim`, or more than x has dimensions; ValueError for
/// sizes below 1, a dimension given twice and other norms; IndexError for a dimension out of range;
/// DTypeError for 16-bit types.
///
///   Tensor X = fft::fftn(randn({4, 8, 8}), {16, 16});  // the last two: complex64 [4, 16, 16]
Tensor fftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});
/// The inverse of fftn(), along each of the dimensions as ifft(). Shapes and errors as for fftn().
Tensor ifftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});
/// fftn() of real values, of which it gives the first n / 2 + 1 frequencies of the last of the
/// transformed dimensions: complex, with that size there. DTypeError also for complex values,
/// ShapeError if there is no dimension; other arguments and errors as for fftn().
Tensor rfftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});
/// The inverse of rfftn(): real values. The last of the transformed dimensions gets the size in
/// `s`, by default 2 (size - 1); give it for an odd number of values. Arguments and errors as for
/// rfftn(), but that the input may be complex.
Tensor irfftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});
/// hfftn() of two dimensions, by default the last ones.
Tensor hfft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// ihfftn() of two dimensions, by default the last ones: the inverse of hfft2().
Tensor ihfft2(const Tensor& x, const Shape& s = {}, const Dims& dim = {-2, -1}, Norm norm = {});
/// fftn() of a signal of which the first n / 2 + 1 values along the last of the transformed
/// dimensions are given, the others being the conjugates of those opposite: the frequencies are
/// real, with the size in `s` there, by default 2 (size - 1). Arguments and errors as for irfftn().
///
///   Tensor X = fft::hfftn(randn({4, 8, 5}, kComplex64));  // float32 [4, 8, 8]
Tensor hfftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});
/// The inverse of hfftn(): the first n / 2 + 1 values, complex, along the last of the transformed
/// dimensions of the signal with these real frequencies. Factors as for ifftn(), arguments and
/// errors as for rfftn().
Tensor ihfftn(const Tensor& x, const Shape& s = {}, const Dims& dim = {}, Norm norm = {});

// ---- Helpers
/// The frequencies of fft() for n samples that are `d` apart: [n], 0, 1, ..., -2, -1 over n d.
/// `options` give a floating dtype (DTypeError), by default the default one, and the device.
/// ValueError for n below 1.
///
///   Tensor f = fft::fftfreq(4, 0.5);  // 0, 0.5, -1, -0.5
Tensor fftfreq(std::int64_t n, double d = 1, const TensorOptions& options = {});
/// The frequencies of rfft(), [n / 2 + 1]: 0, 1, ..., n / 2 over n d. Otherwise as fftfreq().
Tensor rfftfreq(std::int64_t n, double d = 1, const TensorOptions& options = {});
/// Rolls the dimensions, by default all, so that frequency 0 of fft()'s results is in their middle,
/// at index size / 2. IndexError for a dimension out of range.
Tensor fftshift(const Tensor& x, const Dims& dim = {});
/// Undoes fftshift(), also for odd sizes.
Tensor ifftshift(const Tensor& x, const Dims& dim = {});

}  // namespace ferrite::fft
