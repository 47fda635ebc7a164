#include "ferrite/tests/ops/op_table.h"

#include <cmath>
#include <iterator>
#include <set>
#include <sstream>

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
      return dtype != kBool && dtype != kUInt8;
    case Takes::wide:
      return dtype == kFloat32 || dtype == kFloat64;
    case Takes::no_half:
      return dtype != kFloat16 && dtype != kBFloat16;
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

namespace {

/// The words of `text`.
std::set<std::string> names(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

/// Op::autocast by the op's name (docs/mixed_precision.md).
std::optional<CastPolicy> policy_of(const std::string& name) {
  static const std::set<std::string> lower = names(
      "conv1d conv2d conv2d_relu conv2d_relu_max_pool conv2d_statistics conv3d conv_transpose1d "
      "conv_transpose2d "
      "conv_transpose3d linear linear_relu linear_gelu "
      "matmul mm bmm mv addmm addmm_relu baddbmm addbmm addmv einsum tensordot inner");
  static const std::set<std::string> float32 = names(
      "pow exp exp2 expm1 log log2 log10 log1p asin acos sinh cosh cdist cosine_similarity "
      "normalize cumprod reciprocal rsqrt tan softplus sum prod cumsum norm "
      "softmax log_softmax layer_norm rms_norm group_norm cross_entropy nll_loss mse_loss l1_loss "
      "smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
      "poisson_nll_loss gaussian_nll_loss hinge_embedding_loss soft_margin_loss "
      "margin_ranking_loss cosine_embedding_loss pairwise_distance triplet_margin_loss "
      "triplet_margin_with_distance_loss multi_margin_loss multilabel_margin_loss "
      "multilabel_soft_margin_loss ctc_loss softmin lp_pool1d lp_pool2d lp_pool3d");
  static const std::set<std::string> promote = names(
      "batch_norm batch_norm_relu batch_norm_relu_max_pool batch_norm_add batch_norm_add_relu dot "
      "cat stack where scatter scatter_add index_add addcmul addcdiv grid_sample");
  // Made of ops that have policies.
  static const std::set<std::string> composed = names(
      "scaled_dot_product_attention instance_norm local_response_norm bilinear alpha_dropout "
      "feature_alpha_dropout prelu rrelu embedding_bag gumbel_softmax");
  if (composed.contains(name)) return {};
  if (lower.contains(name)) return CastPolicy::lower_precision;
  if (float32.contains(name)) return CastPolicy::float32;
  return promote.contains(name) ? CastPolicy::promote : CastPolicy::unchanged;
}

}  // namespace

bool is_random(const Op& op) {
  static const std::set<std::string> random = names(
      "dropout dropout_ dropout1d dropout2d dropout3d feature_dropout alpha_dropout "
      "feature_alpha_dropout rrelu rrelu_ uniform_ normal_ bernoulli bernoulli_ "
      "rand_like randn_like multinomial sample_logits gumbel_softmax");
  return random.contains(op.name);
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
    for (Op& op : t)
      if (!op.autocast) op.autocast = policy_of(op.name);
    return t;
  }();
  return table;
}

}  // namespace ferrite::test
