// Kernels over many arrays at once: clearing, scaling, clamping, unscaling, norms, copies, sums.
#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "ferrite/kernels/cpu/pieces.h"
#include "ferrite/kernels/cpu/simd.h"

namespace ferrite::kernels::cpu {

namespace {

constexpr int kLanes = 16;

/// x = f(x).
template <class T, class F>
void transform_all(const FlatTensors& tensors, F f) {
  for_each_piece(cut(tensors), [&](std::size_t, const Piece& piece) {
    T* x = start_of<T>(tensors, piece);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < piece.count; ++i)
      x[i] = static_cast<T>(f(static_cast<Compute<T>>(x[i])));
  });
}

/// In arithmetic that vectorises.
template <class C>
bool is_finite(C x) {
  return x - x == 0;
}

template <class To, class From>
void unscale(const FlatTensors& to, const FlatTensors& from, Compute<From> factor,
             float* found_inf) {
  std::atomic<bool> found{false};
  for_each_piece(cut(from), [&](std::size_t, const Piece& piece) {
    const From* x = start_of<From>(from, piece);
    To* o = start_of<To>(to, piece);
    int bad = 0;
    for (std::int64_t i = 0; i < piece.count; ++i) {
      const auto value = static_cast<Compute<From>>(x[i]);
      bad |= !is_finite(value);
      o[i] = static_cast<To>(static_cast<Compute<To>>(value * factor));
    }
    if (bad) found.store(true, std::memory_order_relaxed);
  });
  if (found_inf && found.load()) *found_inf = 1;
}

// ---- Norms

double larger(double a, double b) { return a > b || a != a ? a : b; }

/// Independent sums side by side, which vectorise without reordering any of them.
template <class T, class F, class Combine>
double in_lanes(const T* x, std::int64_t n, F f, Combine combine) {
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

template <class T>
double power_sum(const T* x, std::int64_t n, double p) {
  if (p == 2)
    return in_lanes(
        x, n, [](double v) { return v * v; }, std::plus<>());
  if (p == 1)
    return in_lanes(
        x, n, [](double v) { return std::abs(v); }, std::plus<>());
  if (std::isinf(p))
    return in_lanes(
        x, n, [](double v) { return std::abs(v); }, larger);
  return in_lanes(
      x, n, [p](double v) { return std::pow(std::abs(v), p); }, std::plus<>());
}

double joined(double a, double b, double p) { return std::isinf(p) ? larger(a, b) : a + b; }

double root(double sum, double p) {
  return std::isinf(p) || p == 1 ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

/// The sum of |x|^p for each array, or the maximum if p is infinite.
std::vector<double> power_sums(const FlatTensors& tensors, double p) {
  const std::vector<Piece> pieces = cut(tensors);
  std::vector<double> partial(pieces.size()), sums(tensors.arrays.size());
  dispatch_floating(tensors.dtype, "norm", [&]<class T>() {
    for_each_piece(pieces, [&](std::size_t i, const Piece& piece) {
      partial[i] = power_sum(start_of<const T>(tensors, piece), piece.count, p);
    });
  });
  for (std::size_t i = 0; i < pieces.size(); ++i)
    sums[pieces[i].array] = joined(sums[pieces[i].array], partial[i], p);
  return sums;
}

double total_of(const std::vector<double>& sums, double p) {
  double total = 0;
  for (double s : sums) total = joined(total, s, p);
  return total;
}

// ---- Copies and sums

constexpr std::int64_t kCopyPieceBytes = 1 << 18;

template <class T>
void sum_piece(const SumPart& part, const void* const* inputs, const Piece& piece) {
  constexpr int kWidth = 16;
  const auto block = [&](std::int64_t i, auto width) {
    constexpr int kW = width;
    using Sum = Lanes<typename WrappingOf<Compute<T>>::type, kW>;
    const auto values = [&](std::int32_t k) {
      return bits_as<Sum>(load<kW>(static_cast<const T*>(inputs[k]) + i));
    };
    Sum sum = values(0);
    for (std::int32_t k = 1; k < part.count; ++k) sum = sum + values(k);
    store<kW>(static_cast<T*>(part.out) + i, bits_as<Lanes<Compute<T>, kW>>(sum));
  };
  std::int64_t i = piece.begin;
  const std::int64_t end = piece.begin + piece.count;
  for (; i + kWidth <= end; i += kWidth) block(i, std::integral_constant<int, kWidth>());
  for (; i < end; ++i) block(i, std::integral_constant<int, 1>());
}

}  // namespace

void zero_all(const FlatTensors& tensors) {
  const std::size_t size = itemsize(tensors.dtype);
  for_each_piece(cut(tensors), [&](std::size_t, const Piece& piece) {
    std::memset(static_cast<char*>(tensors.arrays[piece.array].data) +
                    static_cast<std::size_t>(piece.begin) * size,
                0, static_cast<std::size_t>(piece.count) * size);
  });
}

void scale_all(const FlatTensors& tensors, const View& scale) {
  const double factor = *scale.as<double>();
  if (factor == 1) return;
  dispatch_floating(tensors.dtype, "scale_all", [&]<class T>() {
    const auto f = static_cast<Compute<T>>(factor);
    transform_all<T>(tensors, [f](Compute<T> x) { return x * f; });
  });
}

void clamp_all(const FlatTensors& tensors, double limit) {
  dispatch_floating(tensors.dtype, "clamp_all", [&]<class T>() {
    const auto l = static_cast<Compute<T>>(limit);
    transform_all<T>(tensors, [l](Compute<T> x) { return x > l ? l : x < -l ? -l : x; });
  });
}

void unscale_all(const FlatTensors& to, const FlatTensors& from, const float* inv_scale,
                 float* found_inf) {
  const float factor = inv_scale ? *inv_scale : 1;
  if (to.dtype == from.dtype)
    return dispatch_floating(to.dtype, "unscale_all",
                             [&]<class T>() { unscale<T, T>(to, from, factor, found_inf); });
  if (to.dtype == kFloat32)
    return dispatch_types<Half, BFloat16>(from.dtype, "unscale_all", [&]<class T>() {
      unscale<float, T>(to, from, factor, found_inf);
    });
  dispatch_types<float>(from.dtype, "unscale_all", [&]<class From>() {
    dispatch_types<Half, BFloat16>(
        to.dtype, "unscale_all", [&]<class T>() { unscale<T, From>(to, from, factor, found_inf); });
  });
}

void check_finite(const std::vector<FlatTensors>& lists, float* found_inf) {
  std::atomic<bool> found{false};
  for (const FlatTensors& tensors : lists)
    dispatch_floating(tensors.dtype, "check_finite", [&]<class T>() {
      for_each_piece(cut(tensors), [&](std::size_t, const Piece& piece) {
        const T* x = start_of<const T>(tensors, piece);
        int bad = 0;
        for (std::int64_t i = 0; i < piece.count; ++i)
          bad |= !is_finite(static_cast<Compute<T>>(x[i]));
        if (bad) found.store(true, std::memory_order_relaxed);
      });
    });
  if (found.load()) *found_inf = 1;
}

void sum_of_powers(const FlatTensors& tensors, double p, const View& out) {
  *out.as<double>() = total_of(power_sums(tensors, p), p);
}

void norms(const FlatTensors& tensors, double p, const View& each, const View& all) {
  const std::vector<double> sums = power_sums(tensors, p);
  for (std::size_t i = 0; i < sums.size(); ++i) each.as<double>()[i] = root(sums[i], p);
  if (all.data) *all.as<double>() = root(total_of(sums, p), p);
}

void clip_scale(const std::vector<const double*>& sums, double p, double max_norm, const View& norm,
                const View& scale, bool check) {
  double total = 0;
  for (const double* s : sums) total = joined(total, *s, p);
  const double value = root(total, p);
  *norm.as<double>() = value;
  const double factor = max_norm / (value + 1e-6);
  const bool bad = check && !is_finite(value);
  *scale.as<double>() = factor > 1 || bad ? 1 : factor;  // NaN stays, as in PyTorch
  FERRITE_CHECK(!bad, ValueError, kNormOp, "expected values in [0, {}], got {}", DBL_MAX, value);
}

void copy_parts(const std::vector<CopyPart>& parts) {
  const auto bytes = [&](std::size_t i) { return parts[i].bytes; };
  const auto copy = [&](std::size_t, const Piece& piece) {
    const CopyPart& part = parts[piece.array];
    std::memcpy(static_cast<char*>(part.to) + piece.begin,
                static_cast<const char*>(part.from) + piece.begin,
                static_cast<std::size_t>(piece.count));
  };
  for_each_piece(cut(parts.size(), bytes, kCopyPieceBytes), copy, kCopyPieceBytes);
}

void sum_parts(DType dtype, const std::vector<SumPart>& parts,
               const std::vector<const void*>& inputs) {
  dispatch_numeric(dtype, "sum_parts", [&]<class T>() {
    constexpr std::int64_t kMost = kCopyPieceBytes / static_cast<std::int64_t>(sizeof(T));
    const auto numel = [&](std::size_t i) { return parts[i].numel; };
    const auto sum = [&](std::size_t, const Piece& piece) {
      const SumPart& part = parts[piece.array];
      sum_piece<T>(part, inputs.data() + part.first, piece);
    };
    for_each_piece(cut(parts.size(), numel, kMost), sum, kMost);
  });
}

}  // namespace ferrite::kernels::cpu

namespace ferrite::kernels {

void sum_parts(const Stream& stream, DType dtype, const std::vector<SumPart>& parts,
               const std::vector<const void*>& inputs) {
  FERRITE_CHECK(dtype != kBool, DTypeError, "sum_parts", "expected numbers to add, got bool");
  launch<cpu::sum_parts, cuda::sum_parts>(stream, "sum_parts", dtype, parts, inputs);
}

}  // namespace ferrite::kernels
