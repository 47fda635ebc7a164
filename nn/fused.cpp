#include "ferrite/nn/fused.h"

#include <algorithm>
#include <typeinfo>
#include <utility>
#include <vector>

#include "ferrite/nn/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/linear_chain.h"
#include "ferrite/ops/matmul.h"

namespace ferrite::nn {

Tensor linear_relu(Linear& linear, const Tensor& x) {
  if (linear.has_hooks()) return relu(linear(x));
  return linear.in_call([&] { return ferrite::linear_relu(x, linear.weight, linear.bias); });
}

Tensor linear_gelu(Linear& linear, const Tensor& x, GeluApproximation approximation) {
  if (linear.has_hooks()) return gelu(linear(x), approximation);
  return linear.in_call(
      [&] { return ferrite::linear_gelu(x, linear.weight, linear.bias, approximation); });
}

Tensor linear_relu_chain(std::span<Linear* const> layers, const Tensor& x) {
  const bool has_hooks = std::ranges::any_of(layers, [](Linear* l) { return l->has_hooks(); });
  if (!has_hooks && x.device().is_cuda()) {
    std::vector<ops::LinearLayer> chain;
    for (const Linear* layer : layers) chain.push_back({layer->weight, layer->bias});
    if (auto out = ops::linear_chain(x, chain)) return *std::move(out);
  }
  Tensor out = x;
  for (Linear* layer : layers.first(layers.size() - 1)) out = linear_relu(*layer, out);
  return (*layers.back())(out);
}

Tensor conv_relu(Conv2d& conv, const Tensor& x) {
  if (conv.has_hooks()) return relu(conv(x));
  return conv.in_call(
      [&] { return conv2d_relu(conv.padded(x), conv.weight, conv.bias, conv.op_options()); });
}

Tensor conv_relu_max_pool(Conv2d& conv, const Tensor& x, const MaxPool2dOptions& pool) {
  if (conv.has_hooks() || x.dim() != 4) return max_pool2d(conv_relu(conv, x), pool);
  return conv.in_call([&] {
    return conv2d_relu_max_pool(conv.padded(x), conv.weight, conv.bias, conv.op_options(), pool);
  });
}

namespace {

/// bn(x), followed by the residual, the ReLU and the pooling of `then`.
Tensor normalize(BatchNorm& bn, const Tensor& x, BatchNormFuncOptions then) {
  if (!bn.has_hooks()) return bn.in_call([&] { return bn.forward(x, then); });
  Tensor out = bn(x);
  if (then.residual.defined()) out = out + then.residual;
  if (then.relu) out = relu(out);
  return then.max_pool ? max_pool2d(out, *then.max_pool) : out;
}

/// conv(x), which also gives the statistics of its output.
Tensor conv_with_statistics(Conv2d& conv, const Tensor& x, ChannelStatistics& statistics) {
  return conv.in_call([&] {
    const auto result = ops::conv2d_sums(conv.padded(x), conv.weight, conv.bias, conv.op_options());
    statistics = result.statistics;
    return result.output;
  });
}

/// The same for conv(x).
Tensor normalize(Conv2d& conv, BatchNorm& bn, const Tensor& x, BatchNormFuncOptions then) {
  if (bn.is_identity() && then.relu && !then.residual.defined() && !bn.has_hooks())
    return then.max_pool ? conv_relu_max_pool(conv, x, *then.max_pool) : conv_relu(conv, x);
  // Hooks of the convolution may change its output.
  if (conv.has_hooks() || !bn.uses_batch_statistics())
    return normalize(bn, conv(x), std::move(then));
  const Tensor out = conv_with_statistics(conv, x, then.statistics);
  return normalize(bn, out, std::move(then));
}

}  // namespace

Tensor bn_relu(BatchNorm& bn, const Tensor& x) { return normalize(bn, x, {.relu = true}); }

Tensor bn_relu_max_pool(BatchNorm& bn, const Tensor& x, const MaxPool2dOptions& pool) {
  return normalize(bn, x, {.relu = true, .max_pool = pool});
}

Tensor conv_bn(Conv2d& conv, BatchNorm& bn, const Tensor& x) { return normalize(conv, bn, x, {}); }

Tensor conv_bn_relu(Conv2d& conv, BatchNorm& bn, const Tensor& x) {
  return normalize(conv, bn, x, {.relu = true});
}

Tensor conv_bn_relu_max_pool(Conv2d& conv, BatchNorm& bn, const Tensor& x,
                             const MaxPool2dOptions& pool) {
  return normalize(conv, bn, x, {.relu = true, .max_pool = pool});
}

Tensor conv_bn_add_relu(Conv2d& conv, BatchNorm& bn, const Tensor& x, const Tensor& residual) {
  FERRITE_CHECK(residual.defined(), ValueError, "conv_bn_add_relu",
                "expected a residual, got an undefined tensor; without one, call conv_bn_relu");
  return normalize(conv, bn, x, {.residual = residual, .relu = true});
}

namespace {

/// `module` as an M; null if its type is not exactly M.
template <class M>
M* exactly(Module& module) {
  return typeid(module) == typeid(M) ? static_cast<M*>(&module) : nullptr;
}

/// The result of the first `modules` of a list, run as one op.
struct Fused {
  Tensor out;
  std::size_t modules = 0;  // 0: there is no such op, or hooks need the intermediate tensors
};

/// The i-th of `modules` as an M; null if there is none, its type is another, or it has hooks.
template <class M>
M* plain(std::span<Module* const> modules, std::size_t i) {
  return i < modules.size() && !modules[i]->has_hooks() ? exactly<M>(*modules[i]) : nullptr;
}

Fused run_fused(std::span<Module* const> modules, const Tensor& x) {
  if (Linear* linear = plain<Linear>(modules, 0)) {
    if (plain<ReLU>(modules, 1)) return {linear_relu(*linear, x), 2};
    if (const GELU* gelu = plain<GELU>(modules, 1))
      return {linear_gelu(*linear, x, gelu->approximate()), 2};
  }
  if (BatchNorm2d* bn = plain<BatchNorm2d>(modules, 0); bn && plain<ReLU>(modules, 1)) {
    if (const MaxPool2d* pool = plain<MaxPool2d>(modules, 2))
      return {bn_relu_max_pool(*bn, x, pool->options()), 3};
    return {bn_relu(*bn, x), 2};
  }
  if (Conv2d* conv = plain<Conv2d>(modules, 0)) {
    if (plain<ReLU>(modules, 1)) {
      if (const MaxPool2d* pool = plain<MaxPool2d>(modules, 2))
        return {conv_relu_max_pool(*conv, x, pool->options()), 3};
      return {conv_relu(*conv, x), 2};
    }
    if (BatchNorm2d* bn = plain<BatchNorm2d>(modules, 1); bn && x.dim() == 4) {
      if (!plain<ReLU>(modules, 2)) return {conv_bn(*conv, *bn, x), 2};
      if (const MaxPool2d* pool = plain<MaxPool2d>(modules, 3))
        return {conv_bn_relu_max_pool(*conv, *bn, x, pool->options()), 4};
      return {conv_bn_relu(*conv, *bn, x), 3};
    }
  }
  return {};
}

}  // namespace

Tensor run_in_order(std::span<Module* const> modules, const Tensor& input) {
  Tensor x = input;
  for (std::span<Module* const> rest = modules; !rest.empty();) {
    Fused fused = run_fused(rest, x);
    if (fused.modules == 0) fused = {(*rest[0])(x), 1};
    x = std::move(fused.out);
    rest = rest.subspan(fused.modules);
  }
  return x;
}

Shortcut::Shortcut(Sequential& layers, const Tensor& input) : x_(input) {
  if (layers.empty()) return;
  const std::vector<Module*> modules = layers.children();
  Conv2d* conv = plain<Conv2d>(modules, 0);
  BatchNorm2d* bn = plain<BatchNorm2d>(modules, 1);
  if (layers.has_hooks() || modules.size() != 2 || !conv || !bn || !bn->uses_batch_statistics() ||
      input.dim() != 4) {
    x_ = layers(input);
    return;
  }
  norm_ = bn;
  const profiler::detail::ModuleRange range(layers);
  x_ = layers.in_call([&] { return conv_with_statistics(*conv, input, statistics_); });
}

Tensor Shortcut::output() const {
  return norm_ ? normalize(*norm_, x_, {.statistics = statistics_}) : x_;
}

Tensor conv_bn_add_relu(Conv2d& conv, BatchNorm& bn, const Tensor& x, const Shortcut& shortcut) {
  const bool may_fuse = shortcut.norm_ && shortcut.norm_ != &bn && !bn.has_hooks() &&
                        bn.uses_batch_statistics() && !bn.is_synchronized();
  auto second =
      may_fuse ? shortcut.norm_->as_shortcut(shortcut.x_, shortcut.statistics_) : std::nullopt;
  if (!second) return conv_bn_add_relu(conv, bn, x, shortcut.output());
  return normalize(conv, bn, x, {.shortcut = std::move(second), .relu = true});
}

}  // namespace ferrite::nn
