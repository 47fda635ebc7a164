#include "kernels/cpu/gemm.h"

namespace ferrite::kernels::cpu {

void double_product(const View& out, const View& a, const View& b, const MatmulOptions& options) {
  for_each_product<double>(out, a, b, [&](const auto& c, const auto& x, const auto& y) {
    gemm<double>(c, x, y,
                 {.alpha = options.alpha,
                  .beta = options.beta,
                  .bias = options.bias.data,
                  .bias_column_step = options.bias.data ? options.bias.strides[0] : 0});
  });
}

}  // namespace ferrite::kernels::cpu
