#include "ferrite/ops/stft.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/complex_parts.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/fft.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using ops::composite;

namespace {

using T = const Tensor&;

/// Frames of n_fft points, with the hop and the window that the options name.
struct Frames {
  std::int64_t size, hop;
  Tensor window;  // [size]

  template <class Options>
  Frames(T x, std::int64_t n_fft, const Options& o, const char* op)
      : size(n_fft), hop(o.hop_length.value_or(n_fft / 4)) {
    const std::int64_t width = o.win_length.value_or(n_fft);
    FERRITE_CHECK(is_differentiable(x.dtype()) && x.itemsize() > 2, DTypeError, op,
                  "expected float32, float64, complex64 or complex128, got {}", x.describe());
    FERRITE_CHECK(n_fft > 0 && hop > 0, ValueError, op,
                  "expected an n_fft and a hop_length above 0, got {} and {}", n_fft, hop);
    FERRITE_CHECK(width > 0 && width <= n_fft, ValueError, op,
                  "expected a win_length from 1 to n_fft, {}, got {}", n_fft, width);
    const DType dtype = real_type(x.dtype());
    window = o.window.defined() ? o.window : ones({width}, {.dtype = dtype, .device = x.device()});
    FERRITE_CHECK(window.shape() == Shape{width}, ShapeError, op,
                  "expected a window of [{}], got {}", width, window.describe());
    if (width < n_fft)
      window = pad(window, {(n_fft - width) / 2, n_fft - width - (n_fft - width) / 2});
  }
};

const char* norm_of(bool normalized) { return normalized ? "ortho" : "backward"; }

/// f(x) of a batch, for an x that may be without that dimension.
template <class F>
Tensor batched(T x, int dims, const char* op, F&& f) {
  FERRITE_CHECK(x.dim() == dims || x.dim() == dims - 1, ShapeError, op,
                "expected {} or {} dimensions, got {}", dims - 1, dims, x.describe());
  return x.dim() == dims ? f(x) : f(x.unsqueeze(0)).squeeze(0);
}

void check_window(std::int64_t n, const TensorOptions& options, const char* op) {
  FERRITE_CHECK(n >= 0, ValueError, op, "expected a length of 0 or more, got {}", n);
  FERRITE_CHECK(is_differentiable(options.dtype), DTypeError, op,
                "expected a floating or complex type, got {}", options.dtype);
}

/// The sum of frames [B, frames, size], `hop` apart: [B, length].
Tensor overlapped(T frames, std::int64_t hop, std::int64_t length) {
  if (frames.is_complex())
    return complex(overlapped(real(frames), hop, length), overlapped(imag(frames), hop, length));
  const Tensor columns = frames.transpose(1, 2).contiguous();
  return fold(columns, {1, length}, {1, frames.size(2)}, {.stride = {1, hop}})
      .reshape({frames.size(0), length});
}

}  // namespace

Tensor hamming_window(std::int64_t n, bool periodic, double alpha, double beta,
                      const TensorOptions& options) {
  check_window(n, options, "hamming_window");
  if (n <= 1) return ones({n}, options);
  const double turn = 2 * std::numbers::pi / static_cast<double>(periodic ? n : n - 1);
  const Tensor k = arange(0, n, 1, {.dtype = kFloat64, .device = options.device});
  return detail::place(alpha - beta * cos(k * turn), options);
}

Tensor hann_window(std::int64_t n, bool periodic, const TensorOptions& options) {
  check_window(n, options, "hann_window");
  return hamming_window(n, periodic, 0.5, 0.5, options);
}

Tensor bartlett_window(std::int64_t n, bool periodic, const TensorOptions& options) {
  check_window(n, options, "bartlett_window");
  if (n <= 1) return ones({n}, options);
  const double step = 2 / static_cast<double>(periodic ? n : n - 1);
  const Tensor k = arange(0, n, 1, {.dtype = kFloat64, .device = options.device});
  return detail::place(1 - abs(k * step - 1), options);
}

Tensor blackman_window(std::int64_t n, bool periodic, const TensorOptions& options) {
  check_window(n, options, "blackman_window");
  if (n <= 1) return ones({n}, options);
  const double turn = 2 * std::numbers::pi / static_cast<double>(periodic ? n : n - 1);
  const Tensor k = arange(0, n, 1, {.dtype = kFloat64, .device = options.device});
  return detail::place(0.42 - 0.5 * cos(k * turn) + 0.08 * cos(k * (2 * turn)), options);
}

Tensor kaiser_window(std::int64_t n, bool periodic, double beta, const TensorOptions& options) {
  check_window(n, options, "kaiser_window");
  FERRITE_CHECK(beta >= 0 && beta <= 700, ValueError, "kaiser_window",
                "expected a beta from 0 to 700, got {}", beta);
  if (n <= 1) return ones({n}, options);
  const double step = 2 / static_cast<double>(periodic ? n : n - 1);
  const double middle = std::cyl_bessel_i(0, beta);
  std::vector<double> values;
  for (std::int64_t k = 0; k < n; ++k) {
    const double at = static_cast<double>(k) * step - 1;
    const double root = std::sqrt(std::max(0.0, 1 - at * at));
    values.push_back(std::cyl_bessel_i(0, beta * root) / middle);
  }
  return detail::place(from_vector(values, {n}).to(options.device), options);
}

Tensor stft(T x, std::int64_t n_fft, const StftOptions& o) {
  constexpr const char* kOp = "stft";
  return composite(
      kOp,
      [&] {
        const Frames frames(x, n_fft, o, kOp);
        const bool real_frames = !x.is_complex() && !frames.window.is_complex();
        const bool onesided = o.onesided.value_or(real_frames);
        FERRITE_CHECK(!onesided || real_frames, ValueError, kOp,
                      "complex signals have no half of frequencies that gives the other; leave "
                      "onesided out");
        const Tensor out = batched(x, 2, kOp, [&](T signal) {
          FERRITE_CHECK(!o.center || o.pad_mode != PadMode::reflect || signal.size(1) > n_fft / 2,
                        ValueError, kOp,
                        "a signal of {} is too short to be padded by n_fft / 2 = {}; give "
                        "pad_mode = PadMode::constant",
                        signal.size(1), n_fft / 2);
          const Tensor whole = o.center ? pad(signal, {n_fft / 2, n_fft / 2}, o.pad_mode) : signal;
          FERRITE_CHECK(whole.size(1) >= n_fft, ValueError, kOp,
                        "a signal of {} is shorter than n_fft, {}", whole.size(1), n_fft);
          const Tensor cut = whole.unfold(1, n_fft, frames.hop) * frames.window;
          const char* norm = norm_of(o.normalized);
          return (onesided ? fft::rfft(cut, {}, -1, norm) : fft::fft(cut, {}, -1, norm))
              .transpose(1, 2);
        });
        return o.return_complex ? out : view_as_real(out);
      },
      x);
}

Tensor istft(T x, std::int64_t n_fft, const IstftOptions& o) {
  constexpr const char* kOp = "istft";
  return composite(
      kOp,
      [&] {
        FERRITE_CHECK(x.is_complex(), DTypeError, kOp, "expected a complex tensor, got {}",
                      x.describe());
        const Frames frames(x, n_fft, o, kOp);
        FERRITE_CHECK(x.dim() >= 2, ShapeError, kOp, "expected 2 or 3 dimensions, got {}",
                      x.describe());
        const std::int64_t frequencies = x.size(-2);
        const bool onesided = o.onesided.value_or(frequencies != n_fft);
        FERRITE_CHECK(frequencies == (onesided ? n_fft / 2 + 1 : n_fft), ShapeError, kOp,
                      "expected {} frequencies, got {}", onesided ? n_fft / 2 + 1 : n_fft,
                      x.describe());
        FERRITE_CHECK(!o.return_complex || !onesided, ValueError, kOp,
                      "half of the frequencies give a real signal; leave return_complex out");
        return batched(x, 3, kOp, [&](T spectrum) {
          const char* norm = norm_of(o.normalized);
          const Tensor columns = spectrum.transpose(1, 2);
          // A real signal depends on half of the frequencies, to which irfft() cuts.
          const Tensor parts = o.return_complex ? fft::ifft(columns, {}, -1, norm)
                                                : fft::irfft(columns, n_fft, -1, norm);
          const std::int64_t count = spectrum.size(2), whole = n_fft + frames.hop * (count - 1);
          const Tensor sums = overlapped(parts * frames.window, frames.hop, whole);
          const Tensor weights =
              overlapped(square(frames.window).reshape({1, 1, n_fft}).expand({1, count, n_fft}),
                         frames.hop, whole);
          const std::int64_t begin = o.center ? n_fft / 2 : 0;
          const std::int64_t end = o.length ? begin + *o.length : whole - begin;
          const Tensor kept = weights.slice(1, begin, end);
          FERRITE_CHECK(kept.numel() > 0 && kept.abs().min().item<double>() > 1e-11, ValueError,
                        kOp, "the windows of frames {} apart leave gaps in the signal", frames.hop);
          const Tensor signal = sums.slice(1, begin, end) / kept;
          return end > whole ? pad(signal, {0, end - whole}) : signal;
        });
      },
      x);
}

}  // namespace ferrite
