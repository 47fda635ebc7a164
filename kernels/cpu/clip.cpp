// The kernels of gradient clipping.
#include <algorithm>
#include <cmath>

#include "core/parallel_for.h"
#include "kernels/cpu/optim.h"

namespace ferrite::kernels::cpu {

namespace {

constexpr std::int64_t kGrain = 32768;
constexpr int kLanes = 16;

/// Calls chunk(number of the chunk, pointer, count) for all arrays cut by size alone; returns how
/// many there are.
template <class T, class Chunk>
std::size_t for_each_chunk(const FlatTensors& tensors, Chunk&& chunk) {
  struct Piece {
    T* data;
    std::int64_t count;
  };
  std::vector<Piece> pieces;
  for (const auto& [data, numel] : tensors.arrays)
    for (std::int64_t at = 0; at < numel; at += kGrain)
      pieces.push_back({static_cast<T*>(data) + at, std::min(kGrain, numel - at)});
  const auto count = static_cast<std::int64_t>(pieces.size());
  // Small arrays go to a thread several at a time.
  std::int64_t total = 0;
  for (const Piece& p : pieces) total += p.count;
  const std::int64_t grain =
      std::max<std::int64_t>(1, count * kGrain / std::max<std::int64_t>(1, total) / 2);
  chunk.prepare(pieces.size());
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      chunk(i, pieces[i].data, pieces[i].count);
  });
  return pieces.size();
}

struct PowerSums {
  double p;
  std::vector<double> partial = {};

  void prepare(std::size_t count) { partial.resize(count); }

  template <class T>
  void operator()(std::size_t i, const T* x, std::int64_t n) {
    if (p == 2)
      partial[i] = lanes(
          x, n, [](double v) { return v * v; }, std::plus<>());
    else if (p == 1)
      partial[i] = lanes(
          x, n, [](double v) { return std::abs(v); }, std::plus<>());
    else if (std::isinf(p))
      partial[i] = lanes(
          x, n, [](double v) { return std::abs(v); }, larger);
    else
      partial[i] = lanes(
          x, n, [this](double v) { return std::pow(std::abs(v), p); }, std::plus<>());
  }

  static double larger(double a, double b) { return a > b || a != a ? a : b; }

  /// Independent sums side by side, which vectorise without reordering any of them.
  template <class T, class F, class Combine>
  static double lanes(const T* x, std::int64_t n, F f, Combine combine) {
    double lane[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (int k = 0; k < kLanes; ++k)
        lane[k] = combine(lane[k], f(static_cast<double>(static_cast<Compute<T>>(x[i + k]))));
    for (int k = 0; i < n; ++i, ++k)
      lane[k] = combine(lane[k], f(static_cast<double>(static_cast<Compute<T>>(x[i]))));
    double result = 0;
    for (double v : lane) result = combine(result, v);
    return result;
  }
};

template <class F>
struct EachElement {
  F f;
  void prepare(std::size_t) {}
  template <class T>
  void operator()(std::size_t, T* x, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(f(static_cast<Compute<T>>(x[i])));
  }
};

}  // namespace

void sum_of_powers(const FlatTensors& tensors, double p, const View& out) {
  PowerSums sums{p};
  dispatch_floating(tensors.dtype, "clip_grad_norm_",
                    [&]<class T>() { for_each_chunk<T>(tensors, sums); });
  double total = 0;
  for (double s : sums.partial) total = std::isinf(p) ? PowerSums::larger(total, s) : total + s;
  *out.as<double>() = total;
}

void clip_scale(const std::vector<const double*>& sums, double p, double max_norm, const View& norm,
                const View& scale) {
  double total = 0;
  for (const double* s : sums) total = std::isinf(p) ? PowerSums::larger(total, *s) : total + *s;
  const double value = std::isinf(p) || p == 1 ? total
                       : p == 2                ? std::sqrt(total)
                                               : std::pow(total, 1 / p);
  *norm.as<double>() = value;
  const double factor = max_norm / (value + 1e-6);
  *scale.as<double>() = factor > 1 ? 1 : factor;  // NaN stays, as in PyTorch
}

void scale_all(const FlatTensors& tensors, const View& scale) {
  const double factor = *scale.as<double>();
  if (factor == 1) return;
  dispatch_floating(tensors.dtype, "clip_grad_norm_", [&]<class T>() {
    const auto f = static_cast<Compute<T>>(factor);
    EachElement each{[f](Compute<T> x) { return x * f; }};
    for_each_chunk<T>(tensors, each);
  });
}

void clamp_all(const FlatTensors& tensors, double limit) {
  dispatch_floating(tensors.dtype, "clip_grad_value_", [&]<class T>() {
    const auto l = static_cast<Compute<T>>(limit);
    EachElement each{[l](Compute<T> x) { return x > l ? l : x < -l ? -l : x; }};
    for_each_chunk<T>(tensors, each);
  });
}

}  // namespace ferrite::kernels::cpu
