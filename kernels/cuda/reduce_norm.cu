#include <cmath>
#include <limits>

#include "ferrite/kernels/cuda/element.cuh"
#include "ferrite/kernels/cuda/reduce.cuh"
#include "ferrite/kernels/cuda/reduce.h"

namespace ferrite::kernels::cuda {

namespace {

/// `Sum` is the type in which squares are summed: double for float32 and for bfloat16, which has
/// the same range, so that they cannot overflow; float is wide enough for float16.
template <class E, class Sum>
struct Norm2 {
  using Elem = E;
  using Lane = Sum;
  using Total = double;
  Elements out;
  __device__ Lane lane() const { return 0; }
  __device__ Total total() const { return 0; }
  __device__ Lane step(Lane a, E x, std::int64_t) const {
    return a + static_cast<Sum>(x) * static_cast<Sum>(x);
  }
  __device__ Lane combine(Lane a, Lane b) const { return a + b; }
  template <class V>
  __device__ Total join(Total a, V b) const {
    return a + static_cast<Total>(b);
  }
  __device__ void store(std::int64_t at, Total a) const { out.set(at, sqrt(a)); }
};

enum class NormKind : std::uint8_t { count, absolute, power, largest, smallest };

__device__ __attribute__((noinline)) double power(double x, double p) { return pow(x, p); }

/// All other norms.
template <class E>
struct NormP {
  using Elem = E;
  using Lane = double;
  using Total = double;
  Elements out;
  NormKind kind;
  double p;
  double neutral;
  __device__ Lane lane() const { return neutral; }
  __device__ Total total() const { return neutral; }
  __device__ Lane step(Lane a, E x, std::int64_t) const {
    const double size = fabs(static_cast<double>(x));
    if (kind == NormKind::count) return a + (size != 0);
    return join(a, kind == NormKind::power ? power(size, p) : size);
  }
  __device__ Lane combine(Lane a, Lane b) const { return join(a, b); }
  __device__ Total join(Total a, Total b) const {
    if (kind < NormKind::largest) return a + b;
    return (kind == NormKind::largest ? b > a : b < a) || b != b ? b : a;
  }
  __device__ void store(std::int64_t at, Total a) const {
    out.set(at, kind == NormKind::power ? power(a, 1 / p) : a);
  }
};

NormKind kind_of(double p) {
  if (p == 0) return NormKind::count;
  if (p == 1) return NormKind::absolute;
  if (std::isinf(p)) return p > 0 ? NormKind::largest : NormKind::smallest;
  return NormKind::power;
}

}  // namespace

void reduce_norm(const Stream& stream, const View& out, const View& in, double p) {
  dispatch_floating(in.dtype, "norm", [&]<class T>() {
    using E = Compute<T>;
    using Sum = std::conditional_t<std::is_same_v<T, Half>, float, double>;
    if (p == 2) return run_reduction<T>(stream, "norm", Norm2<E, Sum>{out}, out, in);
    const NormKind kind = kind_of(p);
    const double neutral =
        kind == NormKind::smallest ? std::numeric_limits<double>::infinity() : 0.0;
    run_reduction<T, Packs::never>(stream, "norm", NormP<E>{out, kind, p, neutral}, out, in);
  });
}

}  // namespace ferrite::kernels::cuda
