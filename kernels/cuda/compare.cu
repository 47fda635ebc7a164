// Comparisons, logic and predicates: what gives bool.
#include "kernels/cuda/binary.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/operands.cuh"

namespace ferrite::kernels::cuda {

namespace {

template <class T>
struct Comparison {
  using Packs = void;
  using C = Compute<T>;
  Test test;
  Operands<T> operands;

  template <int V>
  __device__ __forceinline__ void packs(Pack<bool, V>& out, const Pack<T, V>& a,
                                        const Pack<T, V>& b) const {
    const Pack<C, V> left = operands.template left<V>(a), right = operands.template right<V>(b);
    const auto apply = [&](auto f) { apply_packs(out, left, right, f); };
    switch (test) {
      case Test::logical_and:
        return apply([](C x, C y) { return x != C(0) && y != C(0); });
      case Test::logical_or:
        return apply([](C x, C y) { return x != C(0) || y != C(0); });
      case Test::logical_xor:
        return apply([](C x, C y) { return (x != C(0)) != (y != C(0)); });
      case Test::eq:
        return apply([](C x, C y) { return x == y; });
      case Test::ne:
        return apply([](C x, C y) { return x != y; });
      case Test::gt:
        return apply([](C x, C y) { return x > y; });
      case Test::ge:
        return apply([](C x, C y) { return x >= y; });
      case Test::isnan:
        return apply([](C x, C) { return x != x; });
      // x - x is NaN for infinities, which differ from NaN in that they equal themselves.
      case Test::isinf:
        return apply([](C x, C) { return x == x && is_nan_difference(x); });
      default:
        return apply([](C x, C) { return !is_nan_difference(x); });
    }
  }

 private:
  static __device__ bool is_nan_difference(C x) {
    if constexpr (std::is_floating_point_v<C>) {
      const C difference = x - x;
      return difference != difference;
    } else {
      return false;
    }
  }
};

}  // namespace

void comparison(const Stream& stream, Test test, const View& out, const View& a, const View& b,
                ScalarRole role, Scalar scalar) {
  dispatch_all(a.dtype, "binary", [&]<class T>() {
    const Operands<T> operands{role, scalar.to<Compute<T>>()};
    map<bool, T, T>(stream, "compare", Comparison<T>{test, operands}, out, a, b);
  });
}

}  // namespace ferrite::kernels::cuda
