#include "ferrite/tests/ops/op_table.h"

#include <cmath>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/copy.h"

namespace ferrite::test {

bool takes(Takes what, DType dtype) {
  switch (what) {
    case Takes::any:
      return true;
    case Takes::numeric:
      return dtype != kBool;
    case Takes::products:
      return is_floating(dtype) || dtype == kInt64 || dtype == kInt32;
    case Takes::wide:
      return dtype == kFloat32 || dtype == kFloat64;
    case Takes::no_half:
      return dtype != kFloat16 && dtype != kBFloat16;
    case Takes::pixels:
      if (dtype == kUInt8) return true;
      break;
    case Takes::floating:
      break;
  }
  return is_floating(dtype);
}

Tensor make_input(const Arg& arg, DType dtype, const Device& device, int seed) {
  NoGradGuard guard;
  std::vector<double> values;
  for (std::int64_t i = 0; i < arg.shape.numel(); ++i) {
    // Distinct, irregular, the same everywhere; away from kinks.
    const double u = std::fmod(0.37 + 0.618033988749895 * static_cast<double>(i + 7 * seed), 1.0);
    switch (arg.fill) {
      case Fill::real:
        values.push_back(4 * u - 2);
        break;
      case Fill::positive:
      case Fill::constant:
        values.push_back(0.05 + 0.9 * u);
        break;
      case Fill::index:
        values.push_back(std::floor(u * static_cast<double>(arg.limit)));
        break;
      case Fill::mask:
        values.push_back(u < 0.5);
        break;
    }
  }
  if (arg.wide && is_floating(dtype) && itemsize(dtype) == 2) dtype = kFloat32;
  const DType to = arg.fill == Fill::index ? kInt64 : arg.fill == Fill::mask ? kBool : dtype;
  // uint8 cannot hold what is below 0.
  if (to == kUInt8)
    for (double& v : values) v = std::abs(v);
  return from_vector(values, arg.shape).to(device, to);
}

std::vector<Tensor> make_inputs(const Op& op, DType dtype, const Device& device, int seed) {
  std::vector<Tensor> inputs;
  for (const Arg& arg : op.args)
    inputs.push_back(make_input(arg, dtype, device, static_cast<int>(inputs.size()) + 11 * seed));
  return inputs;
}

const std::vector<Op>& op_table() {
  static const std::vector<Op> table = [] {
    std::vector<Op> t;
    add_elementwise_ops(t);
    add_shape_ops(t);
    add_reductions(t);
    add_index_ops(t);
    add_nn_ops(t);
    add_functions(t);
    add_linalg(t);
    add_layer_ops(t);
    add_methods(t);
    add_options(t);
    add_complex_ops(t);
    return t;
  }();
  return table;
}

}  // namespace ferrite::test
