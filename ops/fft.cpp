#include "ferrite/ops/fft.h"

#include <cmath>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/kernels/fft.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/rearrange.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;
using fft::Length;
using fft::Norm;
using ops::composite;

namespace {

using T = const Tensor&;

// ---- The three kinds of transforms. A factor stays one in the gradient, which is the adjoint.

Tensor c2c(T x, const Dims& dims, bool inverse, double factor) {
  Tensor out = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  kernels::fft(current_stream(x.device()), {dims, inverse, factor}, out, x);
  if (recording(x))
    record(out, "fft_c2c", {x}, [=](T grad, Needs) { return c2c(grad, dims, !inverse, factor); });
  return out;
}

/// `x` with `n` elements along `dim`: cut, or padded with zeros.
Tensor resized(T x, int dim, std::int64_t n) {
  const std::int64_t size = x.size(dim);
  if (n <= size) return n == size ? x : x.narrow(dim, 0, n);
  std::vector<std::int64_t> amounts(2 * static_cast<std::size_t>(x.dim() - dim), 0);
  amounts.back() = n - size;
  return pad(x, amounts);
}

Tensor c2r(T x, int dim, std::int64_t n, double factor);

/// 1 for the frequencies that a real signal of n numbers has once, `value` for those with a
/// conjugate; along `dim`.
Tensor with_conjugates(std::int64_t n, int dim, T like, double value) {
  Shape shape = Shape::filled(like.dim(), 1);
  shape[dim] = n / 2 + 1;
  Tensor factors = ones(shape, {.dtype = real_type(like.dtype()), .device = like.device()});
  factors.narrow(dim, 1, n - (n / 2 + 1)).fill_(value);
  return factors;
}

Tensor r2c(T x, int dim, double factor) {
  const std::int64_t n = x.size(dim);
  Shape shape = x.shape();
  shape[dim] = n / 2 + 1;
  Tensor out = empty(shape, {.dtype = complex_type(x.dtype()), .device = x.device()});
  kernels::fft(current_stream(x.device()), {dim, false, factor}, out, x);
  if (recording(x))
    record(out, "fft_r2c", {x}, [=](T grad, Needs) {
      // The real part of a transform of half of the frequencies: one of all, of which that part is
      // half, and the conjugates the other half.
      return c2r(grad * with_conjugates(n, dim, grad, 0.5), dim, n, factor);
    });
  return out;
}

Tensor c2r(T x, int dim, std::int64_t n, double factor) {
  Shape shape = x.shape();
  shape[dim] = n;
  Tensor out = empty(shape, {.dtype = real_type(x.dtype()), .device = x.device()});
  kernels::fft(current_stream(x.device()), {dim, true, factor}, out, x);
  if (recording(x))
    record(out, "fft_c2r", {x}, [=](T grad, Needs) {
      return r2c(grad, dim, factor) * with_conjugates(n, dim, grad, 2);
    });
  return out;
}

// ---- Arguments

/// x as an input of a transform; integers become the default type. Real transforms take no complex
/// numbers; for complex ones, real numbers are converted.
Tensor input(T x, bool real, const char* op) {
  ops::check_defined(x, op);
  const DType dtype = ops::floating_type(x.dtype());
  FERRITE_CHECK(itemsize(dtype) > 2, DTypeError, op,
                "expected float32, float64, complex64 or complex128, got {}; convert with "
                "to(kFloat32)",
                x.describe());
  FERRITE_CHECK(!real || !x.is_complex(), DTypeError, op,
                "expected a real tensor, got {}; use fft() and its like", x.describe());
  return x.to(real ? dtype : complex_type(dtype));
}

/// The factor for signals of `n` numbers.
double factor_of(Norm norm, bool inverse, std::int64_t n, const char* op) {
  const std::string_view mode = norm.value_or("backward");
  FERRITE_CHECK(mode == "backward" || mode == "forward" || mode == "ortho", ValueError, op,
                "expected a norm of backward, ortho or forward, got {}", mode);
  const auto count = static_cast<double>(n);
  if (mode == "ortho") return 1 / std::sqrt(count);
  return (mode == "forward") == inverse ? 1 : 1 / count;
}

std::int64_t checked_size(std::int64_t n, const char* op) {
  FERRITE_CHECK(n >= 1, ValueError, op, "expected a signal of 1 number or more, got {}", n);
  return n;
}

int checked_dim(T x, int dim, const char* op) {
  FERRITE_CHECK(x.dim() > 0, IndexError, op, "a 0-dimensional tensor has no dimension");
  return normalize_dim(dim, x.dim(), op);
}

/// Dimensions and the sizes of the signal along them.
struct Axes {
  Dims dims;
  Shape sizes;

  /// `halved`: the input has half of the frequencies along the last one.
  Axes(T x, const Shape& s, const Dims& given, bool halved, const char* op) {
    FERRITE_CHECK(s.empty() || given.empty() || s.size() == given.size(), ShapeError, op,
                  "expected as many sizes as dimensions, got {} and {}", s, given);
    FERRITE_CHECK(s.size() <= x.dim(), ShapeError, op, "{} sizes for the {} dimensions of {}",
                  s.size(), x.dim(), x.shape());
    const int count = given.empty() ? s.empty() ? x.dim() : s.size() : given.size();
    unsigned seen = 0;
    for (int i = 0; i < count; ++i) {
      const int d =
          given.empty() ? x.dim() - count + i : checked_dim(x, static_cast<int>(given[i]), op);
      FERRITE_CHECK(!(seen >> d & 1u), ValueError, op, "dimension {} appears twice in {}", d,
                    given);
      seen |= 1u << d;
      const std::int64_t size = x.size(d);
      const std::int64_t own = halved && i == count - 1 ? 2 * (size - 1) : size;
      dims.push_back(d);
      sizes.push_back(checked_size(s.empty() || s[i] == -1 ? own : s[i], op));
    }
  }

  int last() const { return static_cast<int>(dims.back()); }
  Dims others() const {
    Dims out;
    for (int i = 0; i + 1 < dims.size(); ++i) out.push_back(dims[i]);
    return out;
  }
};

void require_axis(const Axes& axes, const char* op) {
  FERRITE_CHECK(!axes.dims.empty(), ShapeError, op, "expected one dimension or more to transform");
}

// ---- The functions by kind, of any number of dimensions

Tensor complex_transform(const char* op, T x, const Shape& s, const Dims& dim, bool inverse,
                         Norm norm) {
  return composite(
      op,
      [&] {
        Tensor in = input(x, false, op);
        const Axes axes(in, s, dim, false, op);
        const double factor = factor_of(norm, inverse, axes.sizes.numel(), op);
        for (int i = 0; i < axes.dims.size(); ++i)
          in = resized(in, static_cast<int>(axes.dims[i]), axes.sizes[i]);
        return axes.dims.empty() ? in.clone() : c2c(in, axes.dims, inverse, factor);
      },
      x);
}

Tensor real_transform(const char* op, T x, const Shape& s, const Dims& dim, bool inverse,
                      Norm norm) {
  return composite(
      op,
      [&] {
        Tensor in = input(x, true, op);
        const Axes axes(in, s, dim, false, op);
        require_axis(axes, op);
        for (int i = 0; i < axes.dims.size(); ++i)
          in = resized(in, static_cast<int>(axes.dims[i]), axes.sizes[i]);
        Tensor out = r2c(in, axes.last(), factor_of(norm, inverse, axes.sizes.numel(), op));
        if (axes.dims.size() > 1) out = c2c(out, axes.others(), false, 1);
        return inverse ? conj(out) : out;
      },
      x);
}

Tensor to_real_transform(const char* op, T x, const Shape& s, const Dims& dim, bool inverse,
                         Norm norm) {
  return composite(
      op,
      [&] {
        Tensor in = input(x, false, op);
        const Axes axes(in, s, dim, true, op);
        require_axis(axes, op);
        const std::int64_t n = axes.sizes.back();
        for (int i = 0; i < axes.dims.size(); ++i)
          in = resized(in, static_cast<int>(axes.dims[i]),
                       i + 1 < axes.dims.size() ? axes.sizes[i] : n / 2 + 1);
        if (!inverse) in = conj(in);
        if (axes.dims.size() > 1) in = c2c(in, axes.others(), true, 1);
        return c2r(in, axes.last(), n, factor_of(norm, inverse, axes.sizes.numel(), op));
      },
      x);
}

/// The size of a transform in one dimension, where -1 is not allowed.
Shape one_size(Length n, const char* op) { return n ? Shape{checked_size(*n, op)} : Shape(); }

Dims one_dim(T x, int dim, const char* op) {
  ops::check_defined(x, op);
  return {checked_dim(x, dim, op)};
}

}  // namespace

// ---- One dimension

Tensor fft::fft(T x, Length n, int dim, Norm norm) {
  return complex_transform("fft", x, one_size(n, "fft"), one_dim(x, dim, "fft"), false, norm);
}
Tensor fft::ifft(T x, Length n, int dim, Norm norm) {
  return complex_transform("ifft", x, one_size(n, "ifft"), one_dim(x, dim, "ifft"), true, norm);
}
Tensor fft::rfft(T x, Length n, int dim, Norm norm) {
  return real_transform("rfft", x, one_size(n, "rfft"), one_dim(x, dim, "rfft"), false, norm);
}
Tensor fft::irfft(T x, Length n, int dim, Norm norm) {
  return to_real_transform("irfft", x, one_size(n, "irfft"), one_dim(x, dim, "irfft"), true, norm);
}
Tensor fft::hfft(T x, Length n, int dim, Norm norm) {
  return to_real_transform("hfft", x, one_size(n, "hfft"), one_dim(x, dim, "hfft"), false, norm);
}
Tensor fft::ihfft(T x, Length n, int dim, Norm norm) {
  return real_transform("ihfft", x, one_size(n, "ihfft"), one_dim(x, dim, "ihfft"), true, norm);
}

// ---- Several

Tensor fft::fft2(T x, const Shape& s, const Dims& dim, Norm norm) {
  return complex_transform("fft2", x, s, dim, false, norm);
}
Tensor fft::ifft2(T x, const Shape& s, const Dims& dim, Norm norm) {
  return complex_transform("ifft2", x, s, dim, true, norm);
}
Tensor fft::rfft2(T x, const Shape& s, const Dims& dim, Norm norm) {
  return real_transform("rfft2", x, s, dim, false, norm);
}
Tensor fft::irfft2(T x, const Shape& s, const Dims& dim, Norm norm) {
  return to_real_transform("irfft2", x, s, dim, true, norm);
}
Tensor fft::fftn(T x, const Shape& s, const Dims& dim, Norm norm) {
  return complex_transform("fftn", x, s, dim, false, norm);
}
Tensor fft::ifftn(T x, const Shape& s, const Dims& dim, Norm norm) {
  return complex_transform("ifftn", x, s, dim, true, norm);
}
Tensor fft::rfftn(T x, const Shape& s, const Dims& dim, Norm norm) {
  return real_transform("rfftn", x, s, dim, false, norm);
}
Tensor fft::irfftn(T x, const Shape& s, const Dims& dim, Norm norm) {
  return to_real_transform("irfftn", x, s, dim, true, norm);
}
Tensor fft::hfft2(T x, const Shape& s, const Dims& dim, Norm norm) {
  return to_real_transform("hfft2", x, s, dim, false, norm);
}
Tensor fft::ihfft2(T x, const Shape& s, const Dims& dim, Norm norm) {
  return real_transform("ihfft2", x, s, dim, true, norm);
}
Tensor fft::hfftn(T x, const Shape& s, const Dims& dim, Norm norm) {
  return to_real_transform("hfftn", x, s, dim, false, norm);
}
Tensor fft::ihfftn(T x, const Shape& s, const Dims& dim, Norm norm) {
  return real_transform("ihfftn", x, s, dim, true, norm);
}

// ---- Helpers

namespace {

/// k / (n * d) for k = 0, 1, ..., count - 1; from `negative` on, k - n in the place of k.
Tensor frequencies(const char* op, std::int64_t n, std::int64_t count, std::int64_t negative,
                   double d, const TensorOptions& options) {
  checked_size(n, op);
  FERRITE_CHECK(is_floating(options.dtype), DTypeError, op, "expected a floating type, got {}",
                options.dtype);
  TensorOptions plain = options;
  plain.dtype = static_cast<DType>(options.dtype);  // of arange() as well, even if not given
  plain.requires_grad = false;
  const Tensor places = arange(0, count, 1, plain);
  places.slice(0, negative).sub_(n);
  return detail::with_grad(places.mul_(1 / (static_cast<double>(n) * d)), options);
}

/// Rolls each dimension of size n by (n + extra) / 2.
Tensor shifted(const char* op, T x, const Dims& given, std::int64_t extra) {
  return composite(
      op,
      [&] {
        Dims dims = given, shifts;
        if (dims.empty())
          for (int d = 0; d < x.dim(); ++d) dims.push_back(d);
        for (const std::int64_t d : dims)
          shifts.push_back((x.size(static_cast<int>(d)) + extra) / 2);
        return dims.empty() ? x.clone() : roll(x, shifts, dims);
      },
      x);
}

}  // namespace

Tensor fft::fftfreq(std::int64_t n, double d, const TensorOptions& options) {
  return frequencies("fftfreq", n, n, (n + 1) / 2, d, options);
}
Tensor fft::rfftfreq(std::int64_t n, double d, const TensorOptions& options) {
  const std::int64_t count = n / 2 + 1;
  return frequencies("rfftfreq", n, count, count, d, options);
}

Tensor fft::fftshift(T x, const Dims& dim) { return shifted("fftshift", x, dim, 0); }
Tensor fft::ifftshift(T x, const Dims& dim) { return shifted("ifftshift", x, dim, 1); }

}  // namespace ferrite
