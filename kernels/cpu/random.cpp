#include "ferrite/kernels/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "ferrite/kernels/cpu/loops.h"
#include "ferrite/kernels/cpu/philox.h"
#include "ferrite/kernels/cpu/simd_math.h"

namespace ferrite::kernels::cpu {

namespace {

/// Elements of one batch of Philox words.
template <class C>
inline constexpr int kBatchElements = sizeof(C) == 4 ? 4 * kPhiloxBatch : 2 * kPhiloxBatch;

/// A whole batch of uniform numbers in [0, 1).
void uniform_batch(const std::uint32_t* words, float* u) {
  for (int i = 0; i < kBatchElements<float>; ++i) u[i] = philox_uniform(words[i]);
}
void uniform_batch(const std::uint32_t* words, double* u) {
  for (int i = 0; i < kBatchElements<double>; ++i)
    u[i] = philox_uniform(words[2 * i], words[2 * i + 1]);
}

/// Turns a batch of uniform numbers into normal ones, pair by pair.
template <class C>
void box_muller(C* u) {
  constexpr int n = kBatchElements<C> / 2;
  alignas(64) C radius[n], cosine[n], sine[n];
  for (int i = 0; i < n; ++i) {
    radius[i] = C(1) - u[2 * i];  // (0, 1]: its logarithm is finite
    cosine[i] = C(2 * std::numbers::pi) * u[2 * i + 1];
  }
  const auto sin = [](const auto& x) { return simd::sin(x); };
  const auto cos = [](const auto& x) { return simd::cos(x); };
  simd::transform(sine, n, sin, cosine);
  simd::transform(cosine, n, cos, cosine);
  simd::transform(
      radius, n, [](const auto& x) { return simd::sqrt(C(-2) * simd::log(x)); }, radius);
  for (int i = 0; i < n; ++i) {
    u[2 * i] = radius[i] * cosine[i];
    u[2 * i + 1] = radius[i] * sine[i];
  }
}

/// out[i] = finish(number i), where transform() works on batches of uniform numbers.
template <class T, class Transform, class Finish>
void fill_floating(const View& out, PhiloxState state, Transform transform, Finish finish) {
  using C = Compute<T>;
  T* o = out.as<T>();
  constexpr int kWords = sizeof(C) / 4;
  parallel_for(out.numel, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) C batch[kBatchElements<C>];
    for_each_batch<kWords>(
        state, begin, end,
        [&](const std::uint32_t* words, std::int64_t first, std::int64_t skip, std::int64_t count) {
          uniform_batch(words, batch);
          transform(batch);
          for (std::int64_t i = 0; i < count; ++i)
            o[first + i] = static_cast<T>(finish(batch[skip + i]));
        });
  });
}

}  // namespace

void uniform(const View& out, PhiloxState state, double low, double high) {
  dispatch_floating(out.dtype, "uniform", [&]<class T>() {
    using C = Compute<T>;
    const UniformRange<T> range(low, high);
    fill_floating<T>(
        out, state, [](C*) {},
        [=](C u) { return std::min(range.low + u * range.span, range.top); });
  });
}

void normal(const View& out, PhiloxState state, double mean, double std) {
  dispatch_floating(out.dtype, "normal", [&]<class T>() {
    using C = Compute<T>;
    const C m = static_cast<C>(mean), s = static_cast<C>(std);
    fill_floating<T>(
        out, state, [](C* batch) { box_muller(batch); }, [=](C z) { return m + s * z; });
  });
}

void random_integers(const View& out, PhiloxState state, std::int64_t low, std::int64_t high) {
  const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  dispatch_all(out.dtype, "randint", [&]<class T>() {
    T* o = out.as<T>();
    parallel_for(out.numel, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      for_each_batch<2>(
          state, begin, end,
          [&](const std::uint32_t* words, std::int64_t first, std::int64_t skip,
              std::int64_t count) {
            const std::uint32_t* w = words + 2 * skip;
            for (std::int64_t i = 0; i < count; ++i) {
              const auto bits = static_cast<std::uint64_t>(w[2 * i]) << 32 | w[2 * i + 1];
              __extension__ using Wide = unsigned __int128;
              const auto r = static_cast<std::uint64_t>(Wide{bits} * range >> 64);
              const auto v = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + r);
              if constexpr (is_half_type<T>)
                o[first + i] = static_cast<float>(v);
              else
                o[first + i] = static_cast<T>(v);
            }
          });
    });
  });
}

namespace {

/// out[i] = the uniform number i is below p(i)
template <class T, class Probability>
void draw(const View& out, PhiloxState state, Probability p) {
  T* o = out.as<T>();
  parallel_for(out.numel, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for_each_batch<1>(
        state, begin, end,
        [&](const std::uint32_t* words, std::int64_t first, std::int64_t skip, std::int64_t count) {
          const std::uint32_t* w = words + skip;
          for (std::int64_t i = 0; i < count; ++i)
            o[first + i] = static_cast<T>(philox_uniform(w[i]) < static_cast<float>(p(first + i)));
        });
  });
}

}  // namespace

void bernoulli(const View& out, PhiloxState state, double p) {
  dispatch_all(out.dtype, "bernoulli",
               [&]<class T>() { draw<T>(out, state, [p](std::int64_t) { return p; }); });
}

void bernoulli(const View& out, PhiloxState state, const View& p) {
  dispatch_all(out.dtype, "bernoulli", [&]<class T>() {
    // Probabilities come in the dtype of the result where that is floating, else in float32.
    using P = std::conditional_t<is_floating_type<T>, T, float>;
    draw<T>(out, state, [p = p.as<P>()](std::int64_t i) { return static_cast<Compute<P>>(p[i]); });
  });
}

void permutation(const View& out, PhiloxState state) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> keys(static_cast<std::size_t>(out.numel));
  for_each_batch<2>(
      state, 0, out.numel,
      [&](const std::uint32_t* words, std::int64_t first, std::int64_t skip, std::int64_t count) {
        const std::uint32_t* w = words + 2 * skip;
        for (std::int64_t i = 0; i < count; ++i)
          keys[static_cast<std::size_t>(first + i)] = {
              static_cast<std::uint64_t>(w[2 * i]) << 32 | w[2 * i + 1], first + i};
      });
  std::sort(keys.begin(), keys.end());
  std::int64_t* o = out.as<std::int64_t>();
  for (std::size_t i = 0; i < keys.size(); ++i) o[i] = keys[i].second;
}

}  // namespace ferrite::kernels::cpu

namespace ferrite::kernels {

namespace {
constexpr auto kCpuBernoulli = [](const auto&... args) { cpu::bernoulli(args...); };
constexpr auto kCudaBernoulli = [](const auto&... args) { cuda::bernoulli(args...); };
}  // namespace

void bernoulli(const Stream& stream, const View& out, PhiloxState state, double p) {
  launch<kCpuBernoulli, kCudaBernoulli>(stream, "bernoulli", out, state, p);
}
void bernoulli(const Stream& stream, const View& out, PhiloxState state, const View& p) {
  launch<kCpuBernoulli, kCudaBernoulli>(stream, "bernoulli", out, state, p);
}

}  // namespace ferrite::kernels
