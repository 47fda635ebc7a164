#include "ferrite/kernels/cuda/element.cuh"
#include "ferrite/kernels/cuda/reduce.cuh"
#include "ferrite/kernels/cuda/reduce.h"
#include "ferrite/kernels/element_arithmetic.h"

namespace ferrite::kernels::cuda {

namespace {

template <class E>
struct Sum {
  using Elem = E;
  using Lane = E;
  using Total = TotalOf<E>;
  Elements out;
  Total divisor = 1;
  __device__ Lane lane() const { return 0; }
  __device__ Total total() const { return 0; }
  __device__ Lane step(Lane a, Elem x, std::int64_t) const { return elements::add(a, x); }
  __device__ Lane combine(Lane a, Lane b) const { return elements::add(a, b); }
  template <class V>
  __device__ Total join(Total a, V b) const {
    return elements::add(a, static_cast<Total>(b));
  }
  __device__ void store(std::int64_t at, Total a) const {
    if constexpr (std::is_floating_point_v<Total>) a /= divisor;
    out.set(at, a);
  }
};

/// float32 is multiplied in double, so that intermediate products neither overflow nor underflow.
template <class E>
struct Prod {
  using Elem = E;
  using Lane = TotalOf<E>;
  using Total = Lane;
  Elements out;
  __device__ Lane lane() const { return 1; }
  __device__ Total total() const { return 1; }
  __device__ Lane step(Lane a, Elem x, std::int64_t) const {
    return elements::multiply(a, static_cast<Lane>(x));
  }
  __device__ Lane combine(Lane a, Lane b) const { return elements::multiply(a, b); }
  __device__ Total join(Total a, Total b) const { return elements::multiply(a, b); }
  __device__ void store(std::int64_t at, Total a) const { out.set(at, a); }
};

}  // namespace

void reduce_sum(const Stream& stream, const View& out, const View& in, bool mean) {
  dispatch_reduced(in.dtype, [&]<class T, class E>() {
    Sum<E> sum{out};
    if (mean)
      sum.divisor = static_cast<typename Sum<E>::Total>(out.numel ? in.numel / out.numel : 1);
    run_reduction<T>(stream, "sum", sum, out, in);
  });
}

void reduce_prod(const Stream& stream, const View& out, const View& in) {
  dispatch_reduced(in.dtype, [&]<class T, class E>() {
    run_reduction<T, Packs::never>(stream, "prod", Prod<E>{out}, out, in);
  });
}

}  // namespace ferrite::kernels::cuda
