#include "ferrite/nn/inference.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite::nn {

detail::FoldedNorm detail::fold_norm(const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                     const Tensor& var, const Tensor& scale, const Tensor& shift,
                                     double eps, bool transposed) {
  NoGradGuard guard;
  const auto wide = [](const Tensor& t) { return t.to(kFloat64); };
  Tensor factor = rsqrt(wide(var) + eps);
  if (scale.defined()) factor = factor * wide(scale);
  Tensor moved = -wide(mean);
  if (bias.defined()) moved = moved + wide(bias);
  moved = moved * factor;
  if (shift.defined()) moved = moved + wide(shift);

  const std::int64_t channels = factor.numel();
  // [groups, in / groups, out / groups, taps], or [1, 1, out, the rest].
  const std::int64_t groups = transposed ? channels / weight.size(1) : 1;
  const Tensor scaled =
      transposed ? wide(weight).reshape({groups, weight.size(0) / groups, weight.size(1), -1}) *
                       factor.reshape({groups, 1, weight.size(1), 1})
                 : wide(weight).reshape({channels, -1}) * factor.unsqueeze(1);
  const MemoryFormat format = weight.suggest_memory_format();
  return {scaled.reshape(weight.shape()).to(weight.dtype()).contiguous(format),
          moved.to(weight.dtype())};
}

namespace {

/// A layer into which a batch norm can be folded.
struct Layer {
  Module* module = nullptr;
  Tensor *weight = nullptr, *bias = nullptr;
  int output_dim = 0;       ///< dimensions of an output whose channels are a norm's features
  bool transposed = false;  ///< whether the weight is [in, out / groups, ...]
};

template <class L>
bool is_layer(Module& module, Layer& layer, int output_dim, bool transposed = false) {
  if (typeid(module) != typeid(L)) return false;
  L& found = static_cast<L&>(module);
  layer = {&module, &found.weight, &found.bias, output_dim, transposed};
  return true;
}

/// Its `module` is null if the norm cannot be folded into such a module.
Layer layer_of(Module& module) {
  Layer layer;
  is_layer<Conv1d>(module, layer, 3) || is_layer<Conv2d>(module, layer, 4) ||
      is_layer<Conv3d>(module, layer, 5) || is_layer<ConvTranspose1d>(module, layer, 3, true) ||
      is_layer<ConvTranspose2d>(module, layer, 4, true) ||
      is_layer<ConvTranspose3d>(module, layer, 5, true) || is_layer<Linear>(module, layer, 2);
  return layer;
}

bool is_batch_norm(const Module& module) {
  return typeid(module) == typeid(BatchNorm1d) || typeid(module) == typeid(BatchNorm2d) ||
         typeid(module) == typeid(BatchNorm3d);
}

void check_fusible(const Layer& layer, const BatchNorm& bn, const char* op) {
  for (const Tensor* const tensor : {layer.weight, layer.bias})
    FERRITE_CHECK(!tensor->defined() ||
                      std::ranges::any_of(layer.module->named_parameters(),
                                          [&](const auto& p) { return p.second.is_same(*tensor); }),
                  ValueError, op,
                  "the {} of {} is computed before each call, which would undo the fold; call "
                  "remove_weight_norm() or remove_spectral_norm() first",
                  tensor == layer.weight ? "weight" : "bias", layer.module->name());
  FERRITE_CHECK(!layer.module->is_training() && !bn.is_training(), ValueError, op,
                "expected modules in evaluation mode; call eval() first");
  FERRITE_CHECK(bn.running_mean.defined(), ValueError, op,
                "the norm has no running statistics, so it is not the same function of each input");
  // A transposed convolution without a bias does not know its groups.
  const std::int64_t features = bn.running_mean.numel();
  const bool fits = layer.bias->defined() ? features == layer.bias->numel()
                    : layer.transposed    ? features % layer.weight->size(1) == 0
                                          : features == layer.weight->size(0);
  FERRITE_CHECK(fits, ShapeError, op, "the norm has {} features, the weight of {} is {}", features,
                layer.module->name(), layer.weight->shape());
}

void fold(const Layer& layer, const BatchNorm& bn) {
  const bool trains = layer.weight->requires_grad();
  detail::FoldedNorm folded =
      detail::fold_norm(*layer.weight, *layer.bias, bn.running_mean, bn.running_var, bn.weight,
                        bn.bias, bn.options().eps, layer.transposed);
  *layer.weight = folded.weight.set_requires_grad(trains);
  *layer.bias = folded.bias.set_requires_grad(trains);
}

template <class L>
L fused(const L& layer, const BatchNorm& bn, const char* op) {
  L copy = std::move(*layer.clone());
  const Layer of_copy = layer_of(copy);
  FERRITE_CHECK(of_copy.module, ValueError, op, "cannot fold a norm into a {}", layer.name());
  check_fusible(of_copy, bn, op);
  fold(of_copy, bn);
  return copy;
}

}  // namespace

template <class Conv>
Conv utils::fuse_conv_bn_eval(const Conv& conv, const BatchNorm& bn) {
  return fused(conv, bn, "fuse_conv_bn_eval");
}
template Conv1d utils::fuse_conv_bn_eval(const Conv1d&, const BatchNorm&);
template Conv2d utils::fuse_conv_bn_eval(const Conv2d&, const BatchNorm&);
template Conv3d utils::fuse_conv_bn_eval(const Conv3d&, const BatchNorm&);
template ConvTranspose1d utils::fuse_conv_bn_eval(const ConvTranspose1d&, const BatchNorm&);
template ConvTranspose2d utils::fuse_conv_bn_eval(const ConvTranspose2d&, const BatchNorm&);
template ConvTranspose3d utils::fuse_conv_bn_eval(const ConvTranspose3d&, const BatchNorm&);

Linear utils::fuse_linear_bn_eval(const Linear& linear, const BatchNorm& bn) {
  return fused(linear, bn, "fuse_linear_bn_eval");
}

// ---- A whole network

namespace {

/// A call of a layer, and of the norm that took its output.
struct Pair {
  Layer layer;
  BatchNorm* norm = nullptr;
  int layer_calls = 0, norm_calls = 0;
  Tensor output = {};
  std::uint32_t version = 0;
};

class Folding {
 public:
  Folding(Module& net, const Tensor& example) : net_(net), example_(example) {}

  void run() {
    const Tensor expected = find_pairs();
    // All at once first: it is rare that something else uses an output.
    if (!agree(run_without(pairs_), expected))
      std::erase_if(pairs_, [&](const Pair& p) { return !agree(run_without({p}), expected); });
    for (const Pair& p : pairs_) {
      fold(p.layer, *p.norm);
      p.norm->become_identity();
    }
  }

 private:
  /// Runs the network once and gives its output.
  Tensor find_pairs();
  /// The network's output if nothing but their norms sees the outputs of these layers, and nothing
  /// but the modules themselves their parameters.
  Tensor run_without(std::vector<Pair> pairs) const;

  static bool agree(const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && allclose(a, b, 1e-5, 1e-8);
  }

  Module& net_;
  const Tensor& example_;
  std::vector<Pair> pairs_;
};

/// The hooks of a run.
class HookList {
 public:
  HookList() = default;
  ~HookList() {
    for (ModuleHook& hook : hooks_) hook.remove();
  }
  HookList(const HookList&) = delete;
  HookList& operator=(const HookList&) = delete;
  void add(Module& module, ForwardHook hook) {
    hooks_.push_back(module.register_forward_hook(std::move(hook)));
  }
  void add_pre(Module& module, ForwardPreHook hook) {
    hooks_.push_back(module.register_forward_pre_hook(std::move(hook)));
  }

 private:
  std::vector<ModuleHook> hooks_;
};

Tensor Folding::find_pairs() {
  std::unordered_map<const TensorImpl*, int> uses;  // of weights, in any module
  for (Module* const module : net_.modules())
    for (const auto& [name, tensor] : module->named_parameters())
      if (name.find('.') == std::string::npos) ++uses[tensor.impl()];
  std::vector<Pair> pairs;
  std::vector<BatchNorm*> norms;
  for (Module* const module : net_.modules()) {
    if (module->has_hooks()) continue;
    if (const Layer layer = layer_of(*module);
        layer.module && uses[layer.weight->impl()] == 1 &&
        (!layer.bias->defined() || uses[layer.bias->impl()] == 1))
      pairs.push_back({layer});
    if (is_batch_norm(*module)) norms.push_back(static_cast<BatchNorm*>(module));
  }

  HookList hooks;
  for (Pair& p : pairs)
    hooks.add(*p.layer.module, [&p](Module&, std::span<const Tensor>, std::span<Tensor> outputs) {
      ++p.layer_calls;
      p.output = outputs[0];  // kept, so that no other tensor has its address
      p.version = p.output.storage()->version();
    });
  std::unordered_map<const BatchNorm*, int> calls;
  for (BatchNorm* const norm : norms)
    hooks.add(*norm, [&, norm](Module&, std::span<const Tensor> inputs, std::span<Tensor>) {
      ++calls[norm];
      for (Pair& p : pairs)
        if (p.output.defined() && p.output.is_same(inputs[0]) &&
            p.version == inputs[0].storage()->version() && inputs[0].dim() == p.layer.output_dim &&
            !norm->uses_batch_statistics()) {
          p.norm = norm;
          ++p.norm_calls;
        }
    });
  const Tensor expected = net_(example_);
  for (Pair& p : pairs) {
    p.output = {};
    if (p.norm && p.layer_calls == 1 && p.norm_calls == 1 && calls[p.norm] == 1)
      pairs_.push_back(p);
  }
  return expected;
}

/// Parameters of a module that are NaN but for its calls, until the object is destroyed.
class HiddenTensors {
 public:
  HiddenTensors() = default;
  ~HiddenTensors() { show(); }
  HiddenTensors(const HiddenTensors&) = delete;
  HiddenTensors& operator=(const HiddenTensors&) = delete;

  /// `like` has the shape of an undefined `tensor` that the fold will define.
  void add(Tensor& tensor, const Tensor& like) {
    if (like.defined())
      entries_.push_back(
          {&tensor, tensor, full_like(like, std::numeric_limits<double>::quiet_NaN())});
  }
  void hide() {
    for (Entry& e : entries_) *e.tensor = e.nan;
  }
  void show() {
    for (Entry& e : entries_) *e.tensor = e.value;
  }
  /// Hides them, but for the calls of `module`.
  void hide_but_for(Module& module, HookList& hooks) {
    hooks.add_pre(module, [this](Module&, std::span<Tensor>) { show(); });
    hooks.add(module, [this](Module&, std::span<const Tensor>, std::span<Tensor>) { hide(); });
    hide();
  }

 private:
  struct Entry {
    Tensor* tensor;
    Tensor value, nan;
  };
  std::vector<Entry> entries_;
};

Tensor Folding::run_without(std::vector<Pair> pairs) const {
  std::deque<HiddenTensors> hidden;
  HookList hooks;
  for (Pair& p : pairs) {
    hooks.add(*p.layer.module, [&p](Module&, std::span<const Tensor>, std::span<Tensor> outputs) {
      p.output = outputs[0];
      outputs[0] = full_like(p.output, std::numeric_limits<double>::quiet_NaN());
    });
    hooks.add(*p.norm, [&p](Module&, std::span<const Tensor>, std::span<Tensor> outputs) {
      outputs[0] = p.norm->forward(p.output);
      p.output = {};
    });
    HiddenTensors& of_layer = hidden.emplace_back();
    of_layer.add(*p.layer.weight, *p.layer.weight);
    of_layer.add(*p.layer.bias, p.norm->running_mean);
    of_layer.hide_but_for(*p.layer.module, hooks);
    HiddenTensors& of_norm = hidden.emplace_back();
    for (Tensor* const t :
         {&p.norm->weight, &p.norm->bias, &p.norm->running_mean, &p.norm->running_var})
      of_norm.add(*t, *t);
    of_norm.hide_but_for(*p.norm, hooks);
  }
  return net_(example_);
}

}  // namespace

std::unique_ptr<Module> optimize_for_inference(const Module& module, const Tensor& example) {
  NoGradGuard guard;
  std::unique_ptr<Module> net = module.clone();
  net->eval();
  net->requires_grad_(false);
  Folding(*net, example).run();
  net->to(kChannelsLast);
  // The CPU's engines take vectors of output channels: weights are laid out for them once.
  for (Conv2d* const conv : net->modules<Conv2d>())
    if (conv->weight.defined() && conv->weight.is_cpu() && conv->options().groups == 1)
      conv->weight.set_data(conv->weight.permute({2, 3, 1, 0}).contiguous().permute({3, 2, 0, 1}));
  return net;
}

}  // namespace ferrite::nn
