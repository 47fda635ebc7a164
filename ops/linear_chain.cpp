#include "ferrite/ops/linear_chain.h"

#include <utility>
#include <vector>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/linear_gradients.h"
#include "ferrite/kernels/matmul.h"
#include "ferrite/ops/activation_gradient.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"

namespace ferrite::ops {

using autograd::Gradients;
using autograd::Needs;
using autograd::Saved;
using kernels::Activation;
using kernels::MatmulOptions;
using kernels::transposed;
using kernels::View;

namespace {

Tensor product(const Tensor& like, const View& a, const View& b, const MatmulOptions& options) {
  Tensor out = empty({a.sizes[0], b.sizes[1]}, {.dtype = like.dtype(), .device = like.device()});
  kernels::matmul(current_stream(out.device()), out, a, b, options);
  return out;
}

bool fits(const Tensor& input, std::span<const LinearLayer> layers) {
  if (tracing::on() || layers.size() < 2 || !input.defined() || !input.device().is_cuda() ||
      input.dim() != 2 || !is_floating(input.dtype()))
    return false;
  std::int64_t features = input.size(1);
  for (const auto& [weight, bias] : layers) {
    const auto alike = [&](const Tensor& t) {
      return t.defined() && t.dtype() == input.dtype() && t.device() == input.device();
    };
    if (!alike(weight) || weight.dim() != 2 || weight.size(1) != features) return false;
    features = weight.size(0);
    if (bias.defined() && (!alike(bias) || bias.dim() != 1 || bias.size(0) != features))
      return false;
    if (ops::autocast(AutocastOp::linear, input, weight, bias)) return false;
  }
  return true;
}

/// A layer with what its gradients need.
struct Kept {
  Saved weight, bias, input;
  Tensor input_bits;  // of an input that is a ReLU's result; without memory if there are none
};

/// Whether the gradients of a layer that follows a ReLU come from one launch, which takes the mask
/// from the ReLU's result.
bool masks_by_result(const LinearLayer& layer, std::int64_t rows) {
  return layer.weight.requires_grad() && kernels::is_small_linear(rows, layer.weight);
}

/// Returns the gradient of a layer's input; the weight's goes to `weight`, the bias's to `bias`.
Tensor in_one_launch(const Kept& kept, const Tensor& grad, Tensor& weight, const View& bias,
                     bool after_relu) {
  const Tensor x = kept.input.get(), w = kept.weight.get();
  const TensorOptions like{.dtype = grad.dtype(), .device = grad.device()};
  weight = empty(w.shape(), like);
  Tensor input = empty(x.shape(), like);
  kernels::linear_gradients(
      current_stream(grad.device()),
      {.input = input, .weight = weight, .bias = bias, .after_relu = after_relu}, grad, x, w);
  return input;
}

/// The gradients of the chain's input and of the layers' weights and biases, in this order.
Gradients gradients(const std::vector<Kept>& layers, Tensor grad, Needs needs) {
  Gradients result(2 * layers.size() + 1);
  const auto needed_before = [&](std::size_t layer) {
    for (std::size_t i = 0; i <= 2 * layer; ++i)
      if (needs[i]) return true;
    return false;
  };
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    const Kept& kept = layers[layer];
    const std::size_t at = 2 * layer + 1;
    const TensorOptions like{.dtype = grad.dtype(), .device = grad.device()};
    if (needs[at + 1]) result[at + 1] = empty({grad.size(1)}, like);
    const View sums = needs[at + 1] ? View(result[at + 1]) : View();
    const bool continues = needed_before(layer);
    if (needs[at] && continues && kernels::is_small_linear(grad.size(0), kept.weight.get())) {
      grad = in_one_launch(kept, grad, result[at], sums, layer > 0);
      continue;
    }
    if (needs[at])
      result[at] = product(grad, transposed(grad), kept.input.get(), {.row_sums = sums});
    else if (needs[at + 1])
      kernels::column_sum(current_stream(grad.device()), sums, grad);
    if (!continues) break;
    MatmulOptions options;
    const Tensor input = layer > 0 ? kept.input.get() : Tensor();
    if (layer > 0) options.relu_of = input;
    if (kept.input_bits.defined()) options.relu_bits = kept.input_bits;
    grad = product(grad, grad, kept.weight.get(), options);
  }
  if (needs[0]) result[0] = std::move(grad);
  return result;
}

/// The same by differentiable ops, for create_graph: the ReLUs' results must be on the tape.
Gradients differentiable_gradients(const std::vector<Kept>& layers, Tensor grad, Needs needs) {
  Gradients result(2 * layers.size() + 1);
  std::vector<Tensor> inputs{layers[0].input.get()};
  for (std::size_t i = 0; i + 1 < layers.size(); ++i)
    inputs.push_back(linear_relu(inputs[i], layers[i].weight.get(), layers[i].bias.get()));
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    const std::size_t at = 2 * layer + 1;
    if (needs[at]) result[at] = mm(grad.transpose(0, 1), inputs[layer]);
    if (needs[at + 1]) result[at + 1] = sum(grad, {0});
    if (layer == 0 && !needs[0]) break;
    grad = mm(grad, layers[layer].weight.get());
    if (layer > 0) grad = relu_gradient(grad, inputs[layer]);
  }
  if (needs[0]) result[0] = std::move(grad);
  return result;
}

}  // namespace

std::optional<Tensor> linear_chain(const Tensor& input, std::span<const LinearLayer> layers) {
  if (!fits(input, layers)) return std::nullopt;
  const profiler::OpRange range("linear_chain", input);
  std::vector<Tensor> inputs{input};
  for (const auto& [weight, bias] : layers) inputs.push_back(weight), inputs.push_back(bias);
  const bool records = autograd::recording(std::span<const Tensor>(inputs));
  std::vector<Kept> kept;
  Tensor x = input, bits;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto& [weight, bias] = layers[i];
    if (records) kept.push_back({Saved(weight), Saved(bias), Saved(x), std::move(bits)});
    MatmulOptions options{.bias = bias.defined() ? View(bias) : View()};
    bool has_bits = false;
    if (i + 1 < layers.size()) {
      options.activation = Activation::relu;
      if (records && !masks_by_result(layers[i + 1], x.size(0))) {
        bits = empty({x.size(0), kernels::relu_bits_size(weight.size(0))},
                     {.dtype = kUInt8, .device = x.device()});
        options.relu_bits = bits;
        options.has_relu_bits = &has_bits;
      }
    }
    x = product(x, x, transposed(weight), options);
    if (!has_bits) bits = {};
  }
  if (records)
    autograd::record(x, "linear_chain", std::span<const Tensor>(inputs),
                     [kept = std::move(kept)](const Tensor& grad, Needs needs) -> Gradients {
                       return grad_enabled() ? differentiable_gradients(kept, grad, needs)
                                             : gradients(kept, grad, needs);
                     });
  return x;
}

}  // namespace ferrite::ops
