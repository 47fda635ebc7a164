#include "ferrite/kernels/cpu/conv/product.h"

#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cpu {

namespace {

/// Images as a batch of matrices, [images, pixels, channels].
View matrices(View v) {
  v.ndim = 3;
  v.sizes[2] = v.sizes[1], v.strides[2] = v.strides[1];
  v.sizes[1] = v.numel / (v.sizes[0] * v.sizes[2]), v.strides[1] = v.strides[3];
  return v;
}
/// All pixels as one.
View matrix(View v) {
  v = matrices(v);
  v.ndim = 2;
  v.sizes[0] *= v.sizes[1], v.strides[0] = v.strides[1];
  v.sizes[1] = v.sizes[2], v.strides[1] = v.strides[2];
  return v;
}

}  // namespace

bool is_product(const ConvCall& c) {
  const ConvParams& p = c.params;
  const auto even = [&](const View& v) {
    return v.numel > 0 && v.strides[1] == 1 && v.strides[2] == v.sizes[3] * v.strides[3] &&
           (c.pass != ConvPass::weight || v.strides[0] == v.sizes[2] * v.strides[2]);
  };
  return c.out.dtype == kBFloat16 && p.groups == 1 && c.weight.sizes[2] * c.weight.sizes[3] == 1 &&
         p.stride == std::array<std::int64_t, 2>{1, 1} &&
         p.padding == std::array<std::int64_t, 2>{0, 0} && c.weight.numel > 0 && even(c.input) &&
         even(c.out);
}

void run_product(const ConvCall& c) {
  View weight = c.weight;
  weight.ndim = 2;
  if (c.pass == ConvPass::weight) {
    MatmulOptions options;
    options.row_sums = c.bias;
    return cpu::matmul(weight, transposed(matrix(c.out)), matrix(c.input), options);
  }
  // Each image of a batch is cut separately, so the bits of one do not depend on the number of
  // images.
  const bool forward = c.pass == ConvPass::forward;
  const View &to = forward ? c.out : c.input, &from = forward ? c.input : c.out;
  const View one = forward ? transposed(weight) : weight;
  View factor = matrices(c.weight);
  for (int d = 2; d > 0; --d)
    factor.sizes[d] = one.sizes[d - 1], factor.strides[d] = one.strides[d - 1];
  factor.sizes[0] = to.sizes[0], factor.strides[0] = 0;
  MatmulOptions options;
  options.bias = c.bias;
  if (forward) options.activation = c.params.activation;
  cpu::matmul(matrices(to), matrices(from), factor, options);
}

}  // namespace ferrite::kernels::cpu
