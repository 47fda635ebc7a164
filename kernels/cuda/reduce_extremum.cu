#include <cmath>
#include <limits>

#include "ferrite/kernels/cuda/element.cuh"
#include "ferrite/kernels/cuda/reduce.cuh"
#include "ferrite/kernels/cuda/reduce.h"

namespace ferrite::kernels::cuda {

namespace {

template <class E>
struct Extremum {
  using Elem = E;
  using Lane = E;
  using Total = E;
  Elements out;
  bool max;
  E worst;
  /// NaN wins.
  __device__ E step(E a, E x, std::int64_t) const {
    return (max ? x > a : x < a) || x != x ? x : a;
  }
  __device__ E lane() const { return worst; }
  __device__ E total() const { return worst; }
  __device__ E combine(E a, E b) const { return step(a, b, 0); }
  __device__ E join(E a, E b) const { return step(a, b, 0); }
  __device__ void store(std::int64_t at, E a) const { out.set(at, a); }
};

template <class E>
E worst_of(bool max) {
  using L = std::numeric_limits<E>;
  if constexpr (L::has_infinity)
    return max ? -L::infinity() : L::infinity();
  else
    return max ? L::min() : L::max();
}

}  // namespace

void reduce_extremum(const Stream& stream, const View& out, const View& in, bool max) {
  dispatch_reduced(in.dtype, [&]<class T, class E>() {
    run_reduction<T>(stream, max ? "max" : "min", Extremum<E>{out, max, worst_of<E>(max)}, out, in);
  });
}

}  // namespace ferrite::kernels::cuda
