// What the loops of batch norm have in common: parameters as lanes need them, the affine step, and
// sums of gradients.
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/kernels/cpu/channel_loops.h"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cpu {

/// A channel parameter as lanes need it: `otherwise` where it is absent.
template <class S>
std::vector<S> values_of(const View& param, std::int64_t channels, S otherwise) {
  if (!param.data) return std::vector<S>(static_cast<std::size_t>(channels), otherwise);
  return std::vector<S>(param.as<S>(), param.as<S>() + channels);
}

/// f(std::true_type()) or f(std::false_type()).
template <class F>
void either(bool condition, F&& f) {
  condition ? f(std::true_type()) : f(std::false_type());
}

/// weight * invstd.
template <class S>
std::vector<S> scales_of(const View& weight, const View& invstd, std::int64_t channels) {
  std::vector<S> scales = values_of<S>(weight, channels, 1);
  for (std::size_t c = 0; c < scales.size(); ++c) scales[c] *= invstd.as<S>()[c];
  return scales;
}

/// The affine step, to the same bits forward and backward. `deviation` is in - mean: subtracted
/// first, as a mean far from zero must not cancel against the bias.
template <class V, class P, class Q>
auto affine(const V& deviation, const P& scale, const Q& shift) {
  return deviation * scale + shift;
}

/// What a T can hold of `v`.
template <class T, int W>
Lanes<Compute<T>, W> rounded(const Lanes<Compute<T>, W>& v) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    return v;
  } else {
    T to[W];
    store<W>(to, v);
    return load<W>(to);
  }
}

/// The gradient `g` where a ReLU let its `result` pass.
template <class L>
L pass(const L& g, const L& result) {
  return result <= 0 ? L{} : g;
}

/// The terms of dx = scale * dy - shift - slope * (x - mean); zeros without sums.
template <class S>
struct Terms {
  std::vector<S> shifts, slopes;
};
template <class S>
Terms<S> terms_of(const std::vector<S>& scales, const View& sum_dy, const View& sum_dy_xhat,
                  const View& invstd, double count) {
  Terms<S> terms{std::vector<S>(scales.size()), std::vector<S>(scales.size())};
  if (!sum_dy.data) return terms;
  for (std::size_t c = 0; c < scales.size(); ++c) {
    const double scale = static_cast<double>(scales[c]) / count;
    terms.shifts[c] = static_cast<S>(scale * static_cast<double>(sum_dy.as<S>()[c]));
    terms.slopes[c] = static_cast<S>(scale * static_cast<double>(sum_dy_xhat.as<S>()[c]) *
                                     static_cast<double>(invstd.as<S>()[c]));
  }
  return terms;
}

/// Each channel's mean and sum of squared deviations from it.
template <class T>
void channel_moments(const ChannelLayout& layout, const T* x, double* means, double* m2s) {
  using S = Compute<T>;
  ChannelPieces pieces(layout, 2);
  pieces.compute<S>([&](const auto& part, auto&& put) {
    const auto n = part.count();
    auto mean = part.center(x);
    const auto d = part.template sums<2>([&](auto width, int v, std::int64_t at, auto& sums) {
      const auto deviation = load<width>(x + at) - mean[v];
      sums[0] += deviation;
      sums[1] += deviation * deviation;
    });
    auto m2 = mean;
    for (std::size_t v = 0; v < part.kVectors; ++v) {
      mean[v] += d[v][0] / n;
      m2[v] = d[v][1] - d[v][0] * d[v][0] / n;
    }
    put(0, mean);
    put(1, m2);
  });
  // The parts together (Chan, Golub and LeVeque 1983), channel beside channel.
  const std::int64_t channels = layout.channels;
  std::fill_n(means, channels, 0.0);
  std::fill_n(m2s, channels, 0.0);
  for (std::int64_t p = 0; p < pieces.pieces(); ++p) {
    const double weight = static_cast<double>(pieces.size(p)) / static_cast<double>(layout.count());
    const double* const part = pieces.get(0, p);
    for (std::int64_t c = 0; c < channels; ++c) means[c] += weight * part[c];
  }
  for (std::int64_t p = 0; p < pieces.pieces(); ++p) {
    const auto n = static_cast<double>(pieces.size(p));
    const double *const part = pieces.get(0, p), *const m2_of_part = pieces.get(1, p);
    for (std::int64_t c = 0; c < channels; ++c) {
      const double d = part[c] - means[c];
      m2s[c] += m2_of_part[c] + n * d * d;
    }
  }
}

/// Hands over all sums of a part.
template <class Put, class S, std::size_t V>
void put_sums(Put&& put, const std::array<S, V>& sums) {
  for (std::size_t k = 0; k < sums[0].size(); ++k) {
    std::array<std::remove_cvref_t<decltype(sums[0][0])>, V> values;
    for (std::size_t v = 0; v < V; ++v) values[v] = sums[v][k];
    put(static_cast<int>(k), values);
  }
}

/// to = result k of all pieces together, times `factor` where that is given.
template <class S>
void put_total(S* to, const ChannelPieces& pieces, int k, std::int64_t channels,
               const S* factor = nullptr) {
  const Scratch<double> totals(channels);
  double* const sums = totals.data();
  std::fill_n(sums, channels, 0.0);
  for (std::int64_t p = 0; p < pieces.pieces(); ++p) {
    const double* const part = pieces.get(k, p);
    for (std::int64_t c = 0; c < channels; ++c) sums[c] += part[c];
  }
  for (std::int64_t c = 0; c < channels; ++c)
    to[c] = static_cast<S>(factor ? sums[c] * static_cast<double>(factor[c]) : sums[c]);
}

}  // namespace ferrite::kernels::cpu
