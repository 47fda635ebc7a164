#include <type_traits>

#include "ferrite/kernels/combine.h"
#include "ferrite/kernels/cuda/elementwise.cuh"

namespace ferrite::kernels::cuda {

namespace {

template <class C>
__device__ __forceinline__ C reduce(Combine op, C a, C b) {
  switch (op) {
    case Combine::sum:
    case Combine::product:
      if constexpr (std::is_integral_v<C>) {  // wraps around
        using Wide = std::make_unsigned_t<C>;
        const Wide x = static_cast<Wide>(a), y = static_cast<Wide>(b);
        return static_cast<C>(op == Combine::sum ? x + y : x * y);
      } else {
        return op == Combine::sum ? a + b : a * b;
      }
    case Combine::min:
      return a < b || a != a ? a : b;
    default:
      return a > b || a != a ? a : b;
  }
}

/// One kernel for all operations: the branch is uniform, and its cost is negligible next to the
/// memory accesses.
template <class C>
struct Reduce {
  Combine op;
  C scale;

  __device__ C operator()(C a, C b) const {
    const C reduced = reduce(op, a, b);
    if constexpr (std::is_floating_point_v<C>) return reduced * scale;
    return reduced;
  }
};

template <class Out, class A, class B>
void run(const Stream& stream, Combine op, const View& out, const View& a, const View& b,
         double scale) {
  using C = Compute<B>;
  map<Out, A, B>(stream, "combine", Reduce<C>{op, static_cast<C>(scale)}, out, a, b);
}

}  // namespace

void combine(const Stream& stream, Combine op, const View& out, const View& a, const View& b,
             double scale) {
  if (out.dtype == b.dtype && a.dtype == b.dtype)
    return dispatch_numeric(b.dtype, "combine",
                            [&]<class T>() { run<T, T, T>(stream, op, out, a, b, scale); });
  dispatch_types<Half, BFloat16>(b.dtype, "combine", [&]<class T>() {
    if (out.dtype != kFloat32)
      run<T, float, T>(stream, op, out, a, b, scale);
    else if (a.dtype != kFloat32)
      run<float, T, T>(stream, op, out, a, b, scale);
    else
      run<float, float, T>(stream, op, out, a, b, scale);
  });
}

}  // namespace ferrite::kernels::cuda
