#include "ferrite/kernels/cuda/element.cuh"
#include "ferrite/kernels/cuda/reduce.cuh"
#include "ferrite/kernels/order.h"

namespace ferrite::kernels::cuda {

namespace {

template <class E>
struct ArgExtremum {
  struct alignas(16) Best {
    E value;
    std::int64_t index;  // below 0: none yet
  };
  using Elem = E;
  using Lane = Best;
  using Total = Best;
  Elements values, indices;
  bool max;

  __device__ Best lane() const { return {E(0), -1}; }
  __device__ Best total() const { return lane(); }
  /// NaN beats every number; the first NaN wins.
  __device__ bool beats(E x, E best) const {
    return (max ? x > best : x < best) || (x != x && best == best);
  }
  __device__ Best step(Best a, E x, std::int64_t index) const {
    return a.index < 0 || beats(x, a.value) ? Best{x, index} : a;
  }
  __device__ Best combine(Best a, Best b) const {
    if (a.index < 0) return b;
    if (b.index < 0 || beats(a.value, b.value)) return a;
    return beats(b.value, a.value) || b.index < a.index ? b : a;
  }
  __device__ Best join(Best a, Best b) const { return combine(a, b); }
  __device__ void store(std::int64_t at, const Best& best) const {
    indices.set(at, best.index);
    if (values.data) values.set(at, best.value);
  }
};

}  // namespace

void arg_extremum(const Stream& stream, Extremum kind, const View& values, const View& indices,
                  const View& in, int dim) {
  if (in.numel == 0) return;
  View positions = indices;
  positions.sizes[dim] = 1;
  dispatch_reduced(in.dtype, [&]<class T, class E>() {
    constexpr Packs packs = is_floating_type<T> ? Packs::where_possible : Packs::never;
    run_reduction<T, packs>(stream, "arg_extremum",
                            ArgExtremum<E>{values, indices, kind == Extremum::max}, positions, in);
  });
}

}  // namespace ferrite::kernels::cuda
