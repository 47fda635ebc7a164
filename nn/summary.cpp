#include "ferrite/nn/summary.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/creation.h"

namespace ferrite::nn {

namespace {

/// Restores, at its destruction, the state that a forward may change.
class Restore {
 public:
  explicit Restore(Module& model) {
    for (Module* module : model.modules()) modes_.emplace_back(module, module->is_training());
    std::vector<Device> devices = {Device()};
    for (const Tensor& p : model.parameters()) devices.push_back(p.device());
    for (const Tensor& b : model.buffers()) {
      devices.push_back(b.device());
      buffers_.push_back({b, no_grad([&] { return b.clone(); }), b.storage()->version()});
    }
    for (const Device& device : devices)
      generators_.emplace_back(&default_generator(device), default_generator(device).state());
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;
  ~Restore() {
    for (ModuleHook& hook : hooks) hook.remove();
    // Parents first, because train() also sets all submodules.
    for (const auto& [module, training] : modes_) module->train(training);
    for (const auto& [generator, state] : generators_) generator->set_state(state);
    NoGradGuard guard;
    try {
      for (const Buffer& b : buffers_)
        if (b.tensor.storage()->version() != b.version) b.tensor.copy_(b.value);
    } catch (const Error&) {
      // Only a failed device throws here; its next use reports the error.
    }
  }

  std::vector<ModuleHook> hooks;

 private:
  struct Buffer {
    Tensor tensor, value;
    std::uint32_t version;
  };
  std::vector<std::pair<Module*, bool>> modes_;
  std::vector<Buffer> buffers_;
  std::vector<std::pair<Generator*, PhiloxState>> generators_;
};

std::int64_t bytes(std::span<const Tensor> tensors) {
  std::size_t sum = 0;
  for (const Tensor& t : tensors)
    if (t.defined()) sum += t.nbytes();
  return static_cast<std::int64_t>(sum);
}

SummaryRow describe(const Module& module, std::string path) {
  SummaryRow row{.path = std::move(path), .type = module.name()};
  if (!row.path.empty()) row.depth = 1 + static_cast<int>(std::ranges::count(row.path, '.'));
  row.is_leaf = module.children().empty();
  row.parameters = module.num_parameters();
  row.trainable = module.num_trainable_parameters();
  for (const auto& [name, p] : module.named_parameters())
    if (name.find('.') == std::string::npos) {
      row.own_parameters += p.numel();
      if (p.requires_grad()) row.own_trainable += p.numel();
    }
  row.own_multiply_adds = 0;
  return row;
}

/// Counts one call of the module of `row`.
void count(Summary& summary, SummaryRow& row, const Module& module, std::span<const Tensor> inputs,
           std::span<const Tensor> outputs) {
  ++row.calls;
  row.output_shapes.clear();
  for (const Tensor& t : outputs) row.output_shapes.push_back(t.shape());
  const std::optional<std::int64_t> products = module.multiply_adds(inputs, outputs);
  if (products && row.own_multiply_adds)
    *row.own_multiply_adds += *products;
  else
    row.own_multiply_adds.reset();
  if (row.is_leaf && row.own_parameters > 0) summary.activation_bytes += 2 * bytes(outputs);
  if (&row == &summary.rows.front()) summary.input_bytes += bytes(inputs);
}

/// Adds the values of each row to its parents.
void total(Summary& summary) {
  std::vector<SummaryRow*> above;  // the ancestors of the row, from the model down
  for (SummaryRow& row : summary.rows) {
    above.resize(static_cast<std::size_t>(row.depth));
    above.push_back(&row);
    if (!row.own_multiply_adds) summary.multiply_adds_known = false;
    for (SummaryRow* r : above) r->multiply_adds += row.own_multiply_adds.value_or(0);
    summary.multiply_adds += row.own_multiply_adds.value_or(0);
  }
}

}  // namespace

Summary summary(Module& model, const std::function<void()>& run, const SummaryOptions& options) {
  Summary result{.depth = options.depth};
  result.parameters = model.num_parameters();
  result.trainable = model.num_trainable_parameters();
  result.parameter_bytes = bytes(model.parameters());
  const std::vector<NamedModule> modules = model.named_modules();
  for (const auto& [path, module] : modules) result.rows.push_back(describe(*module, path));
  {
    Restore restore(model);
    for (std::size_t i = 0; i < modules.size(); ++i)
      restore.hooks.push_back(modules[i].second->register_forward_hook(
          ForwardHook([&result, i](Module& module, std::span<const Tensor> inputs,
                                   std::span<const Tensor> outputs) {
            count(result, result.rows[i], module, inputs, outputs);
          })));
    model.eval();
    no_grad(run);
  }
  total(result);
  return result;
}

Summary summary(Module& model, const Tensor& input, const SummaryOptions& options) {
  return summary(
      model, [&] { model(input); }, options);
}

Summary summary(Module& model, const Shape& input, const SummaryOptions& options) {
  TensorOptions of_input;
  for (const Tensor& p : model.parameters())
    if (is_floating(p.dtype())) {
      of_input = {.dtype = p.dtype(), .device = p.device()};
      break;
    }
  if (options.dtype) of_input.dtype = *options.dtype;
  return summary(model, zeros(input, of_input), options);
}

}  // namespace ferrite::nn
