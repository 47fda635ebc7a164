#include "ferrite/kernels/cpu/gemm.h"

namespace ferrite::kernels::cpu {

void float_product(const View& out, const View& a, const View& b, const MatmulOptions& options) {
  for_each_product<float>(out, a, b, [&](const auto& c, const auto& x, const auto& y) {
    gemm<float, float>(c, x, y, Epilogue(out, options));
  });
}

}  // namespace ferrite::kernels::cpu
