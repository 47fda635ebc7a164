#include "ferrite/kernels/linear_gradients.h"

#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cpu {

void linear_gradients(const LinearGradients& out, const View& grad, const View& input,
                      const View& weight) {
  matmul(out.weight, transposed(grad), input, {.row_sums = out.bias});
  matmul(out.input, grad, weight, {.relu_of = out.after_relu ? input : View()});
}

}  // namespace ferrite::kernels::cpu
