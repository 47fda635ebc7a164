#include "ferrite/kernels/cpu/gemm.h"

namespace ferrite::kernels::cpu {

void half_product(const View& out, const View& a, const View& b, const MatmulOptions& options) {
  dispatch_types<Half, BFloat16>(out.dtype, "matmul", [&]<class S>() {
    with_factor<S>([&]<class A>() {
      for_each_product<S>(out, a, b, [&](const auto& c, const auto& x, const auto& y) {
        gemm<A, S>(c, x, y, Epilogue(out, options));
      });
    });
  });
}

}  // namespace ferrite::kernels::cpu
