// Short-time Fourier transforms (torch.stft, torch.istft) and their windows.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/pair.h"
#include "ferrite/ops/rearrange.h"

namespace ferrite {

/// 0.5 - 0.5 cos(2 pi k / n) for k from 0 to n - 1: [n]. `periodic`, which suits transforms,
/// divides by n, otherwise by n - 1. DTypeError for integers and bool.
Tensor hann_window(std::int64_t n, bool periodic = true, const TensorOptions& options = {});
/// alpha - beta cos(2 pi k / n) for k from 0 to n - 1; otherwise as hann_window().
Tensor hamming_window(std::int64_t n, bool periodic = true, double alpha = 0.54, double beta = 0.46,
                      const TensorOptions& options = {});
/// A triangle, 1 - |2 k / n - 1|; otherwise as hann_window().
Tensor bartlett_window(std::int64_t n, bool periodic = true, const TensorOptions& options = {});
/// 0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n); otherwise as hann_window().
Tensor blackman_window(std::int64_t n, bool periodic = true, const TensorOptions& options = {});
/// I0(beta sqrt(1 - (2 k / n - 1)^2)) / I0(beta), where I0 is the modified Bessel function of the
/// first kind and of order 0; otherwise as hann_window(). ValueError for a beta below 0 or above
/// 700, whose I0 overflows.
Tensor kaiser_window(std::int64_t n, bool periodic = true, double beta = 12,
                     const TensorOptions& options = {});

/// The options of stft().
struct StftOptions {
  ops::NamedFieldsOnly named = {};  ///< lets braces name their fields only; not for users
  std::optional<std::int64_t> hop_length = {};  ///< between frames; n_fft / 4
  std::optional<std::int64_t> win_length = {};  ///< n_fft; a shorter window is in the middle of it
  Tensor window = {};                           ///< [win_length]; undefined: ones
  bool center = true;  ///< frames are around their times: the signal is padded by n_fft / 2
  Choice<PadMode> pad_mode =
      PadMode::reflect;               ///< what the signal is padded with, if it is centred
  bool normalized = false;            ///< by 1 / sqrt(n_fft)
  std::optional<bool> onesided = {};  ///< n_fft / 2 + 1 frequencies; of real signals by default
  bool return_complex = true;         ///< else pairs, as view_as_real() gives
};

/// [B, frequencies, frames] of a signal [B, L], or without B. Types and differentiability as of
/// fft::fft. ShapeError for other shapes, ValueError for lengths that do not suit.
Tensor stft(const Tensor& x, std::int64_t n_fft, const StftOptions& options = {});

/// The options of istft().
struct IstftOptions {
  ops::NamedFieldsOnly named = {};  ///< lets braces name their fields only; not for users
  std::optional<std::int64_t> hop_length = {};  ///< the step between windows
  std::optional<std::int64_t> win_length = {};  ///< the length of the windows
  Tensor window = {};                           ///< the weights of a window
  /// Whether the signal is padded at both ends, so that frame t is centred at sample t *
  /// hop_length.
  bool center = true;
  bool normalized = false;  ///< whether results are divided by the root of the number of points
  std::optional<bool> onesided = {};        ///< unless there are n_fft frequencies
  std::optional<std::int64_t> length = {};  ///< of the signal
  bool return_complex = false;              ///< of a signal that was complex
};

/// The signal of which `x`, complex [B, frequencies, frames] or without B, is the stft() by the
/// same options; where frames overlap, the one whose windowed frames are nearest (Griffin and Lim,
/// 1984). ValueError where the window leaves gaps between frames, for which it waits for the
/// device.
Tensor istft(const Tensor& x, std::int64_t n_fft, const IstftOptions& options = {});

}  // namespace ferrite
