#include "ferrite/kernels/cpu/gemm.h"

namespace ferrite::kernels::cpu {

void double_product(const View& out, const View& a, const View& b, const MatmulOptions& options) {
  for_each_product<double>(out, a, b, [&](const auto& c, const auto& x, const auto& y) {
    gemm<double, double>(c, x, y, Epilogue(out, options));
  });
}

}  // namespace ferrite::kernels::cpu
