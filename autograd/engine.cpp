#include "autograd/engine.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/meta.h"
#include "autograd/record.h"
#include "autograd/state_map.h"
#include "kernels/copy.h"
#include "kernels/elementwise.h"

namespace ferrite::autograd {

namespace {

thread_local bool running_create_graph = false;

/// Whether nobody else can see this tensor's memory, so that it may be overwritten or kept.
bool is_exclusive(const Tensor& t) {
  return t.impl()->use_count() == 1 && t.storage()->use_count() == 1 &&
         (t.is_contiguous() || t.is_contiguous(kChannelsLast));
}

/// Whether keeping `t` keeps no more memory than it needs.
bool fills_storage(const Tensor& t) { return t.storage()->nbytes() == t.nbytes(); }

class Pass;
thread_local Pass* running_pass = nullptr;

/// What this thread is while it works for a pass.
class PassMode {
 public:
  PassMode(Pass& pass, bool create_graph)
      : mode_(create_graph),
        outer_create_graph_(std::exchange(running_create_graph, create_graph)),
        outer_pass_(std::exchange(running_pass, &pass)) {}
  ~PassMode() {
    running_create_graph = outer_create_graph_;
    running_pass = outer_pass_;
  }

 private:
  GradModeGuard mode_;
  AutocastScope autocast_off_{nullptr};  // gradients have the dtypes that were recorded
  bool outer_create_graph_;
  Pass* outer_pass_;
};

/// a + b; recorded under create_graph.
Tensor sum(const Tensor& a, const Tensor& b) {
  Tensor out = empty_like(a);
  kernels::binary(current_stream(a.device()), kernels::BinaryOp::add, out, a, b);
  if (recording(a, b))
    record(out, "add", {a, b}, [](const Tensor& grad, Needs needs) -> Gradients {
      return {needs[0] ? grad : Tensor(), needs[1] ? grad : Tensor()};
    });
  return out;
}

/// Adds `grad` to `total`, in place where nobody would notice.
void add_to(Tensor& total, Tensor grad) {
  if (!total.defined()) {
    total = std::move(grad);
  } else if (!running_create_graph && is_exclusive(total)) {
    kernels::binary(current_stream(total.device()), kernels::BinaryOp::add, total, total, grad);
  } else {
    total = sum(total, grad);
  }
}

/// One backward pass.
class Pass {
 public:
  Pass(bool retain_graph, bool create_graph, bool accumulate)
      : retain_graph_(retain_graph), create_graph_(create_graph), accumulate_(accumulate) {}

  void add_root(const Edge& edge, const Tensor& gradient) { roots_.emplace_back(edge, gradient); }
  /// Makes the gradient that reaches `edge` the result `index`; for grad().
  void capture(const Edge& edge, std::size_t index) {
    captures_[key_of(edge)].push_back({edge.output, index});
  }
  void run();
  void at_end(std::function<void()> f) {
    std::lock_guard lock(mutex_);
    callbacks_.push_back(std::move(f));
  }
  bool accumulates() const { return accumulate_; }
  /// While it runs.
  bool leads_to(const Tensor& leaf) { return states_.find(leaf.impl()) != nullptr; }
  std::vector<Tensor>& captured() { return captured_; }

 private:
  struct Capture {
    std::uint32_t output;
    std::size_t index;
  };
  struct Queue {
    std::vector<State*> heap;  // newest node first
    std::condition_variable changed;
  };
  static bool older(const State* a, const State* b) {
    return a->node->sequence < b->node->sequence;
  }

  void discover();
  void mark_needed();
  void drain(Queue& queue);
  void stop(std::exception_ptr error);
  void process(State& state);
  State* deliver(const Edge& edge, Tensor grad, const Stream& from);
  void finish_leaf(State& state);
  Gradients run_node(State& state, Gradients grads);
  void take_captures(const void* key, const Gradients& grads);
  void push(State* state);
  void run_queues();

  const bool retain_graph_, create_graph_, accumulate_;
  std::vector<std::pair<Edge, Tensor>> roots_;
  std::unordered_map<const void*, std::vector<Capture>> captures_;
  std::vector<Tensor> captured_;
  StateMap states_;
  std::vector<std::pair<Device, std::unique_ptr<Queue>>> queues_;  // one a device; often just one
  std::mutex mutex_;             // of states, queues and captures while several threads run
  std::size_t outstanding_ = 0;  // nodes and leaves not done
  std::exception_ptr error_;
  std::vector<std::function<void()>> callbacks_;
};

void Pass::discover() {
  std::vector<Node*> stack;
  const auto visit = [&](const Edge& edge) {
    auto [state, fresh] = states_.insert(key_of(edge));
    ++state->waiting;
    if (!fresh) return;
    ++outstanding_;
    if (!edge.node) {
      state->leaf = edge.leaf;
      state->stream = current_stream(edge.leaf.device());
      state->grads.resize(1);
      return;
    }
    state->node = edge.node.get();
    state->stream = state->node->stream;
    state->grads.resize(state->node->outputs);
    const Device& device = state->node->stream.device();
    if (std::ranges::none_of(queues_, [&](const auto& q) { return q.first == device; }))
      queues_.emplace_back(device, std::make_unique<Queue>());
    stack.push_back(state->node);
  };
  for (const auto& [edge, gradient] : roots_) visit(edge);
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    for (const Edge& edge : node->edges)
      if (edge.valid()) visit(edge);
  }
}

void Pass::mark_needed() {
  // Depth first, so that every target is settled before those that lead to it.
  struct Visit {
    State* state;
    std::size_t next_edge;
  };
  std::vector<Visit> stack;
  const auto enter = [&](State* state) {
    state->needed = false;
    state->captured = captures_.contains(state->node ? static_cast<const void*>(state->node)
                                                     : state->leaf.impl());
    state->seen = true;
    if (state->node) stack.push_back({state, 0});
  };
  for (State& root : states_.states()) {
    if (!root.seen) enter(&root);
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next_edge == top.state->node->edges.size()) {
        State* done = top.state;
        stack.pop_back();
        for (const Edge& edge : done->node->edges)
          if (edge.valid() && states_.find(key_of(edge))->wants_gradient()) done->needed = true;
        continue;
      }
      const Edge& edge = top.state->node->edges[top.next_edge++];
      if (!edge.valid()) continue;
      State* target = states_.find(key_of(edge));
      if (!target->seen) enter(target);
    }
  }
}

void Pass::push(State* state) {
  const Device& device = state->node->stream.device();
  for (auto& [d, queue] : queues_)
    if (d == device) {
      queue->heap.push_back(state);
      std::ranges::push_heap(queue->heap, older);
      if (queues_.size() > 1) queue->changed.notify_one();
      return;
    }
}

void Pass::take_captures(const void* key, const Gradients& grads) {
  std::lock_guard lock(mutex_);
  const auto it = captures_.find(key);
  if (it == captures_.end()) return;
  for (const Capture& c : it->second) {
    if (captured_.size() <= c.index) captured_.resize(c.index + 1);
    captured_[c.index] = grads[c.output];
  }
}

/// Adds to what `edge` leads to; returns it if it is a leaf whose gradient is now final.
State* Pass::deliver(const Edge& edge, Tensor grad, const Stream& from) {
  State& state = *states_.find(key_of(edge));
  if (grad.defined() && state.wants_gradient()) {
    // A backward may put its result on another device than its own.
    const Stream made_on = grad.device() == from.device() ? from : current_stream(grad.device());
    if (!(state.stream == made_on)) {
      state.stream.wait(made_on);
      grad.storage()->record_stream(state.stream);
    }
    Tensor& total = state.grads[edge.output];
    FERRITE_CHECK(
        !total.defined() || (total.shape() == grad.shape() && total.dtype() == grad.dtype() &&
                             total.device() == grad.device()),
        AutogradError, state.node ? state.node->name : "backward",
        "gradients of {} and of {} reach one tensor", total.describe(), grad.describe());
    StreamGuard guard(state.stream);
    add_to(total, std::move(grad));
  }
  if (--state.waiting > 0) return nullptr;
  if (state.node) {
    push(&state);
    return nullptr;
  }
  --outstanding_;
  return &state;
}

void Pass::finish_leaf(State& state) {
  Tensor grad = std::move(state.grads[0]);
  if (!grad.defined() || !state.wants_gradient()) return;
  const Tensor& leaf = state.leaf;
  FERRITE_CHECK(grad.shape() == leaf.shape() && grad.dtype() == leaf.dtype() &&
                    grad.device() == leaf.device(),
                AutogradError, "backward", "a gradient of {} reaches a leaf of {}", grad.describe(),
                leaf.describe());
  StreamGuard guard(state.stream);
  Meta& meta = *meta_of(leaf);
  if (!meta.requires_grad) return;  // frozen since forward
  if (meta.leaf_hooks) {
    const auto hooks = meta.leaf_hooks->pre;  // a hook may remove itself
    for (const auto& hook : hooks) {
      Tensor replaced = hook.call(grad);
      if (!replaced.defined()) continue;
      FERRITE_CHECK(replaced.shape() == grad.shape(), ShapeError, "register_hook",
                    "a hook turned a gradient of {} into one of {}", grad.describe(),
                    replaced.describe());
      grad = std::move(replaced);
    }
  }
  if (state.captured) {
    Gradients one(1);
    one[0] = grad;
    take_captures(leaf.impl(), one);
  }
  if (!accumulate_) return;
  {
    std::lock_guard lock(meta.mutex);
    if (meta.grad.defined() && create_graph_) {
      meta.grad = sum(meta.grad, grad);
    } else if (meta.grad.defined()) {
      kernels::binary(state.stream, kernels::BinaryOp::add, meta.grad, meta.grad, grad);
      meta.grad.storage()->bump_version("backward");
    } else if (create_graph_ ||
               (is_exclusive(grad) && grad.strides() == leaf.strides() && fills_storage(grad))) {
      meta.grad = std::move(grad);
    } else {
      meta.grad = empty_like(leaf);
      kernels::copy(state.stream, meta.grad, grad);
    }
  }
  if (meta.leaf_hooks) {
    const auto hooks = meta.leaf_hooks->post;
    for (const auto& hook : hooks) hook.call(leaf);
  }
}

Gradients Pass::run_node(State& state, Gradients grads) {
  Node& node = *state.node;
  const CurrentNodeScope scope(&node);
  struct Restore {
    std::uint64_t wanted = std::exchange(detail::wanted_edges, ~std::uint64_t{0});
    ~Restore() { detail::wanted_edges = wanted; }
  } restore;
  node.run_hooks(grads);
  if (state.captured) take_captures(&node, grads);
  if (!state.needed) return Gradients(node.edges.size());
  if (!accumulate_)
    for (std::size_t i = 0; i < std::min<std::size_t>(node.edges.size(), 64); ++i)
      if (node.edges[i].valid() && !states_.find(key_of(node.edges[i]))->wants_gradient())
        detail::wanted_edges &= ~(std::uint64_t{1} << i);
  Gradients results = node.backward(std::move(grads));
  FERRITE_CHECK(results.size() == node.edges.size(), AutogradError, node.name,
                "its backward returned {} gradients for {} inputs", results.size(),
                node.edges.size());
  return results;
}

void Pass::process(State& state) {
  Node& node = *state.node;
  Gradients grads = std::move(state.grads);
  Gradients results(node.edges.size());
  StreamGuard guard(node.stream);
  if (state.wants_gradient() && std::ranges::any_of(grads, &Tensor::defined))
    results = run_node(state, std::move(grads));
  // What this pass had no business in stays for another.
  if (!retain_graph_ && state.needed) node.release_saved();

  std::vector<State*> final_leaves;
  {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!node.edges[i].valid()) continue;
      State* leaf = deliver(node.edges[i], std::move(results[i]), node.stream);
      if (leaf) final_leaves.push_back(leaf);
    }
    --outstanding_;
    if (outstanding_ == 0 && queues_.size() > 1)
      for (auto& [device, queue] : queues_) queue->changed.notify_all();
  }
  for (State* leaf : final_leaves) finish_leaf(*leaf);
}

void Pass::stop(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  for (auto& [device, queue] : queues_) queue->changed.notify_all();
}

void Pass::drain(Queue& queue) {
  const bool alone = queues_.size() == 1;
  const PassMode mode(*this, create_graph_);
  try {
    for (;;) {
      State* state = nullptr;
      {
        std::unique_lock lock(mutex_);
        if (!alone)
          queue.changed.wait(lock,
                             [&] { return !queue.heap.empty() || outstanding_ == 0 || error_; });
        if (queue.heap.empty() || error_) break;
        std::ranges::pop_heap(queue.heap, older);
        state = queue.heap.back();
        queue.heap.pop_back();
      }
      process(*state);
    }
  } catch (...) {
    stop(std::current_exception());
  }
}

void Pass::run() {
  discover();
  if (!accumulate_) mark_needed();
  {
    const PassMode mode(*this, create_graph_);
    for (auto& [edge, gradient] : roots_) {
      const Stream made_on = current_stream(gradient.device());
      if (State* leaf = deliver(edge, std::move(gradient), made_on)) finish_leaf(*leaf);
    }
  }
  if (!queues_.empty()) run_queues();
  for (std::size_t i = 0; i < callbacks_.size(); ++i) {
    const PassMode mode(*this, create_graph_);  // a callback may queue another
    const std::function<void()> callback = std::move(callbacks_[i]);
    callback();
  }
}

void Pass::run_queues() {
  // One worker a device; the calling thread is the first device's.
  std::vector<std::thread> workers;
  try {
    for (std::size_t i = 1; i < queues_.size(); ++i)
      workers.emplace_back([this, i] { drain(*queues_[i].second); });
  } catch (...) {  // the system has no more threads
    stop(std::current_exception());
  }
  drain(*queues_[0].second);
  for (std::thread& worker : workers) worker.join();
  if (error_) std::rethrow_exception(error_);
  for (State& state : states_.states())
    if (state.node) current_stream(state.stream.device()).wait(state.stream);
}

/// The gradient that backward starts from at `output`.
Tensor root_gradient(const Tensor& output, const Tensor& given) {
  FERRITE_CHECK(output.defined() && output.requires_grad(), AutogradError, "backward",
                "{} does not require a gradient and was not made from tensors that do",
                output.describe());
  if (given.defined()) {
    FERRITE_CHECK(given.shape() == output.shape(), ShapeError, "backward",
                  "the tensor is {}, its gradient {}", output.describe(), given.describe());
    FERRITE_CHECK(given.dtype() == output.dtype(), DTypeError, "backward",
                  "the tensor is {}, its gradient {}", output.describe(), given.describe());
    FERRITE_CHECK(given.device() == output.device(), DeviceError, "backward",
                  "the tensor is {}, its gradient {}", output.describe(), given.describe());
    return given;
  }
  FERRITE_CHECK(output.numel() == 1, ShapeError, "backward",
                "without a gradient argument the tensor must have one element, got {}",
                output.describe());
  Tensor one = empty_like(output);
  kernels::fill(current_stream(output.device()), one, 1);
  return one;
}

void check_counts(std::size_t outputs, std::size_t gradients) {
  FERRITE_CHECK(gradients == 0 || gradients == outputs, ValueError, "backward",
                "{} gradients for {} tensors", gradients, outputs);
}

}  // namespace

bool creating_graph() { return running_create_graph; }

bool accumulates() { return running_pass && running_pass->accumulates(); }

bool accumulates_into(const Tensor& leaf) { return accumulates() && running_pass->leads_to(leaf); }

void queue_callback(std::function<void()> f) {
  FERRITE_CHECK(running_pass, AutogradError, "queue_callback",
                "no backward pass runs in this thread");
  running_pass->at_end(std::move(f));
}

void once_differentiable() {
  FERRITE_CHECK(!running_create_graph, AutogradError,
                current_node() ? current_node()->name : "backward",
                "its gradient cannot be differentiated again (create_graph)");
}

void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients, bool retain_graph,
              bool create_graph) {
  check_counts(outputs.size(), gradients.size());
  Pass pass(retain_graph || create_graph, create_graph, true);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor gradient = root_gradient(outputs[i], gradients.empty() ? Tensor() : gradients[i]);
    pass.add_root(gradient_edge(outputs[i]), gradient);
  }
  pass.run();
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> gradients, bool retain_graph, bool create_graph,
                         bool allow_unused) {
  check_counts(outputs.size(), gradients.size());
  Pass pass(retain_graph || create_graph, create_graph, false);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor gradient = root_gradient(outputs[i], gradients.empty() ? Tensor() : gradients[i]);
    pass.add_root(gradient_edge(outputs[i]), gradient);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    FERRITE_CHECK(inputs[i].defined() && inputs[i].requires_grad(), AutogradError, "grad",
                  "input {} ({}) does not require a gradient", i, inputs[i].describe());
    pass.capture(gradient_edge(inputs[i]), i);
  }
  pass.run();
  std::vector<Tensor> result = std::move(pass.captured());
  result.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    FERRITE_CHECK(result[i].defined() || allow_unused, AutogradError, "grad",
                  "the outputs do not depend on input {} ({}); pass allow_unused for an undefined "
                  "gradient instead",
                  i, inputs[i].describe());
  return result;
}

}  // namespace ferrite::autograd
