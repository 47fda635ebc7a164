#include "ferrite/nn/graphed_step.h"

#include <algorithm>
#include <optional>

#include "ferrite/autograd/autocast.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/error.h"
#include "ferrite/core/storage.h"
#include "ferrite/core/stream.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/ops/copy.h"

namespace ferrite::nn::detail {

namespace {

/// The autocast region in which a step is called, if any.
struct Region {
  IntrusivePtr<autograd::AutocastState> state;
  bool operator==(const Region& other) const {
    if (!state || !other.state) return !state && !other.state;
    return state->same_settings(*other.state);
  }
};

/// The properties of a call that a graph depends on.
struct Signature {
  struct Input {
    Shape shape;
    DType dtype;
    MemoryFormat format;
    bool operator==(const Input&) const = default;
  };
  Device device;
  bool records = true;  // gradients
  Region autocast;
  std::vector<bool> modes;  // training of each module, then requires_grad of each tensor
  std::vector<Input> inputs;

  bool operator==(const Signature&) const = default;
};

/// A tensor of a model at the time of the capture. Holding it keeps its memory allocated, which the
/// graph continues to use.
struct Known {
  Tensor memory;       // an alias
  Tensor grad_before;  // at the start of the capture
  Tensor grad_after;

  bool has_moved(const Tensor& t) const { return t.data_ptr() != memory.data_ptr(); }
  /// Whether the graph adds to an existing gradient instead of creating one.
  bool accumulates() const { return grad_before.defined() && grad_before.is_same(grad_after); }
};

struct Entry {
  Signature signature;
  int seen = 0;
  std::optional<cuda::Graph> graph;
  std::vector<Tensor> inputs, outputs;
  std::vector<Known> known;
};

void set_grad(const Tensor& t, const Tensor& grad) {
  if (!t.grad().defined() ? grad.defined() : !t.grad().is_same(grad)) t.set_grad(grad);
}

}  // namespace

struct StepGraphs::Impl {
  Impl(nn::Module& model, GraphedStepOptions given);

  Signature signature_of(std::span<const Tensor> inputs) const;
  Entry& entry_for(Signature signature);
  bool may_capture(const Entry& entry) const;
  void capture(Entry& entry, const Step& step);
  std::vector<Tensor> replay(Entry& entry, std::span<const Tensor> inputs);
  std::vector<Tensor> eager(std::span<const Tensor> inputs, const Step& step);

  const GraphedStepOptions options;
  std::vector<nn::Module*> modules;
  std::vector<Tensor> tensors;  // parameters, then buffers
  std::vector<std::unique_ptr<Entry>> entries;
  std::optional<Stream> last;
  GraphedStepStats stats;
};

StepGraphs::Impl::Impl(nn::Module& model, GraphedStepOptions given) : options(std::move(given)) {
  FERRITE_CHECK(options.warmup >= 1, ValueError, "graphed_step",
                "expected 1 or more eager steps before the capture, got {}", options.warmup);
  std::vector<nn::Module*> roots = {&model};
  roots.insert(roots.end(), options.also.begin(), options.also.end());
  const auto append = [](auto& to, const auto& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  for (nn::Module* root : roots) {
    append(modules, root->modules());
    append(tensors, root->parameters());
  }
  FERRITE_CHECK(!tensors.empty(), ValueError, "graphed_step",
                "the model has no parameters, so its device is unknown; does it register them?");
  for (nn::Module* root : roots) append(tensors, root->buffers());
}

StepGraphs::StepGraphs(nn::Module& model, GraphedStepOptions options)
    : impl_(std::make_unique<Impl>(model, std::move(options))) {}
StepGraphs::~StepGraphs() = default;
StepGraphs::StepGraphs(StepGraphs&&) noexcept = default;
StepGraphs& StepGraphs::operator=(StepGraphs&&) noexcept = default;

const GraphedStepStats& StepGraphs::stats() const { return impl_->stats; }
void StepGraphs::reset() { impl_->entries.clear(); }

std::size_t StepGraphs::pool_reserved() const {
  for (const auto& entry : impl_->entries)
    if (entry->graph) return entry->graph->pool_reserved();  // all graphs share one pool
  return 0;
}

Signature StepGraphs::Impl::signature_of(std::span<const Tensor> inputs) const {
  Signature s;
  s.device = tensors[0].device();
  s.records = grad_enabled();
  if (const autograd::AutocastState* region = autograd::autocast_state())
    s.autocast.state = region->renewed();
  for (const nn::Module* module : modules) s.modes.push_back(module->is_training());
  for (const nn::Module* module : modules) s.modes.push_back(module->has_hooks());
  for (const Tensor& t : tensors) s.modes.push_back(t.requires_grad());
  for (const Tensor& t : inputs) {
    FERRITE_CHECK(!t.requires_grad(), ValueError, "graphed_step",
                  "an input requires a gradient ({}), but a graph cannot propagate it out of the "
                  "step; detach() the input, or compute it within the step",
                  t.describe());
    s.inputs.push_back({t.shape(), t.dtype(), t.suggest_memory_format()});
  }
  return s;
}

Entry& StepGraphs::Impl::entry_for(Signature signature) {
  const auto found = std::ranges::find_if(
      entries, [&](const auto& entry) { return entry->signature == signature; });
  if (found != entries.end()) return **found;
  constexpr std::size_t kRemembered = 256;  // bounds memory if every batch has another shape
  if (entries.size() >= kRemembered)
    std::erase_if(entries, [](const auto& entry) { return !entry->graph; });
  entries.push_back(std::make_unique<Entry>());
  entries.back()->signature = std::move(signature);
  return *entries.back();
}

bool StepGraphs::Impl::may_capture(const Entry& entry) const {
  const auto graphs =
      std::ranges::count_if(entries, [](const auto& e) { return e->graph.has_value(); });
  return entry.signature.device.is_cuda() && entry.seen >= options.warmup &&
         static_cast<std::size_t>(graphs) < options.max_graphs;
}

std::vector<Tensor> StepGraphs::run(std::span<const Tensor> inputs, const Step& step) {
  Impl& my = *impl_;
  Entry& entry = my.entry_for(my.signature_of(inputs));
  if (entry.graph) {
    bool moved = false;
    for (std::size_t i = 0; i < my.tensors.size(); ++i)
      moved = moved || entry.known[i].has_moved(my.tensors[i]);
    if (moved) {
      Signature signature = std::move(entry.signature);
      entry = {};
      entry.signature = std::move(signature);
    }
  }
  if (!entry.graph) {
    if (!my.may_capture(entry)) {
      ++entry.seen;
      return my.eager(inputs, step);
    }
    my.capture(entry, step);
  }
  return my.replay(entry, inputs);
}

std::vector<Tensor> StepGraphs::Impl::eager(std::span<const Tensor> inputs, const Step& step) {
  const Device device = tensors[0].device();
  std::vector<Tensor> moved;
  for (const Tensor& t : inputs) moved.push_back(t.to(device, non_blocking));
  ++stats.eager;
  std::vector<Tensor> outputs = step(moved);
  for (Tensor& t : outputs)
    if (t.defined()) t = t.detach();
  return outputs;
}

void StepGraphs::Impl::capture(Entry& entry, const Step& step) {
  const Device& device = entry.signature.device;
  const cuda::Graph* pool = nullptr;
  for (const auto& other : entries)
    if (other->graph) pool = &*other->graph;
  std::vector<Tensor> in, out;
  for (const Signature::Input& i : entry.signature.inputs)
    in.push_back(empty(i.shape, {.dtype = i.dtype, .device = device, .memory_format = i.format}));
  std::vector<Known> known;
  for (const Tensor& t : tensors)
    known.push_back({.memory = t.detach(), .grad_before = t.grad(), .grad_after = {}});
  cuda::Graph graph(device, pool);
  // Tensors converted by autocast within the graph are used only there.
  const auto& outside = entry.signature.autocast.state;
  const auto inside = outside ? outside->renewed() : nullptr;
  const autograd::AutocastScope autocast(inside.get());
  try {
    graph.capture([&] {
      out = step(in);
      for (Tensor& t : out)
        if (t.defined()) t = t.detach();
    });
  } catch (...) {
    // The capture does not execute, so the gradients it created have no values.
    for (std::size_t i = 0; i < tensors.size(); ++i) set_grad(tensors[i], known[i].grad_before);
    throw;
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) known[i].grad_after = tensors[i].grad();
  entry.inputs = std::move(in);
  entry.outputs = std::move(out);
  entry.known = std::move(known);
  entry.graph = std::move(graph);
  ++stats.captures;
}

std::vector<Tensor> StepGraphs::Impl::replay(Entry& entry, std::span<const Tensor> inputs) {
  const NoGradGuard guard;
  const Stream stream = current_stream(entry.signature.device);
  if (last && !(*last == stream)) stream.wait(*last);
  last = stream;
  for (std::size_t i = 0; i < inputs.size(); ++i) entry.inputs[i].copy_(inputs[i], non_blocking);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Known& known = entry.known[i];
    const Tensor grad = tensors[i].grad();
    if (!known.accumulates() || (grad.defined() && grad.is_same(known.grad_before))) continue;
    if (grad.defined())
      kernels::copy(stream, known.grad_before, grad);
    else
      kernels::fill(stream, known.grad_before, 0);
  }
  entry.graph->replay();
  ++stats.replayed;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    set_grad(tensors[i], entry.known[i].grad_after);
    tensors[i].storage()->bump_version("graphed_step");
  }
  if (options.static_outputs) return entry.outputs;
  std::vector<Tensor> results;
  for (const Tensor& t : entry.outputs) results.push_back(t.defined() ? t.clone() : t);
  return results;
}

}  // namespace ferrite::nn::detail
