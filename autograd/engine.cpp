#include "autograd/engine.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "autograd/accumulate.h"
#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/meta.h"
#include "autograd/record.h"
#include "autograd/side_node.h"
#include "autograd/state_map.h"
#include "core/profiler/range.h"
#include "core/thread_name.h"
#include "kernels/copy.h"
#include "kernels/elementwise.h"

namespace ferrite::autograd {

namespace {

thread_local bool running_create_graph = false;

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
  bool leads_to(const Tensor& leaf) { return states_.find(leaf.impl()); }  // while it runs
  std::vector<Tensor>& captured() { return captured_; }

 private:
  struct Capture {
    std::uint32_t output;
    std::size_t index;
  };
  struct Queue {
    std::vector<State*> heap;  // side nodes first, then the newest
    std::condition_variable changed;
  };
  static bool older(const State* a, const State* b) {
    return a->side != b->side ? b->side : a->node->sequence < b->node->sequence;
  }

  void discover();
  void mark_needed();
  void drain(Queue& queue);
  void stop(std::exception_ptr error);
  void process(State& state);
  State* deliver(const Edge& edge, Tensor grad, const Stream& from, bool from_side,
                 const State** joined);
  void join_side(State& state);
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
  const auto visit = [&](const Edge& edge, const Node* from) {
    auto [state, fresh] = states_.insert(key_of(edge));
    ++state->waiting;
    if (!edge.node && from && SideNode::is(*from)) {
      state->side = true;
      state->side_stream = from->stream;
      state->grads.resize(2);
    }
    if (!fresh) return;
    ++outstanding_;
    if (!edge.node) {
      state->leaf = edge.leaf;
      state->stream = current_stream(edge.leaf.device());
      if (!state->side) state->grads.resize(1);
      return;
    }
    state->node = edge.node.get();
    state->stream = state->node->stream;
    state->grads.resize(state->node->outputs);
    state->side = SideNode::is(*state->node);
    // What it writes may be in use there.
    if (state->side) state->stream.wait(current_stream(state->stream.device()));
    const Device& device = state->node->stream.device();
    if (std::ranges::none_of(queues_, [&](const auto& q) { return q.first == device; }))
      queues_.emplace_back(device, std::make_unique<Queue>());
    stack.push_back(state->node);
  };
  for (const auto& [edge, gradient] : roots_) visit(edge, nullptr);
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    for (const Edge& edge : node->edges)
      if (edge.valid()) visit(edge, node);
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

/// Adds to what `edge` leads to; returns it if it is a leaf whose gradient is now final. `joined`
/// is the last state that waited for `from` since that got its last work.
State* Pass::deliver(const Edge& edge, Tensor grad, const Stream& from, bool from_side,
                     const State** joined) {
  State& state = *states_.find(key_of(edge));
  if (grad.defined() && state.wants_gradient()) {
    const bool beside = !state.node && from_side;
    const Stream& stream = beside ? state.side_stream : state.stream;
    Tensor& total = state.grads[state.node ? edge.output : beside];
    check_addable(total, grad, state.node ? state.node->name : "backward");
    // A backward may put its result on another device than its own. What is on another device than
    // the state's stream is summed there.
    const bool from_home = grad.device() == from.device();
    const Stream made_on = from_home ? from : current_stream(grad.device());
    const bool sum_there = total.defined() && !(grad.device() == stream.device());
    if (!(stream == made_on)) grad.storage()->record_stream(stream);
    if (sum_there) made_on.wait(stream);
    if (!sum_there && !(from_home && *joined == &state)) stream.wait(made_on);
    {
      StreamGuard guard(sum_there ? made_on : stream);
      add_to(total, std::move(grad));
    }
    if (sum_there) {
      total.storage()->record_stream(stream);
      stream.wait(made_on);
    }
    if (from_home) *joined = &state;
  }
  if (--state.waiting > 0) return nullptr;
  if (state.node) {
    push(&state);
    return nullptr;
  }
  --outstanding_;
  return &state;
}

/// Of a leaf: adds what came from a side node to what came from others, on the side node's stream.
void Pass::join_side(State& state) {
  Tensor &grad = state.grads[0], &beside = state.grads[1];
  if (!beside.defined()) return;
  const Stream stream = std::exchange(state.stream, state.side_stream);
  if (grad.defined()) {
    state.stream.wait(stream);
    grad.storage()->record_stream(state.stream);
  }
  StreamGuard guard(state.stream);
  add_to(grad, std::move(beside));
  grad.storage()->record_stream(stream);
}

void Pass::finish_leaf(State& state) {
  if (state.side) join_side(state);
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
    const profiler::detail::LibraryRange range(profiler::Kind::backward, "accumulate_grad");
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
  const profiler::detail::NodeRange range(node.name, node.sequence);
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
  const State* joined = nullptr;
  {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!node.edges[i].valid()) continue;
      State* leaf = deliver(node.edges[i], std::move(results[i]), node.stream, state.side, &joined);
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
      const State* joined = nullptr;
      State* leaf = deliver(edge, std::move(gradient), made_on, false, &joined);
      if (leaf) finish_leaf(*leaf);
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
      workers.emplace_back([this, i] {
        ferrite::detail::name_thread("backward " + queues_[i].first.str());
        drain(*queues_[i].second);
      });
  } catch (...) {  // the system has no more threads
    stop(std::current_exception());
  }
  drain(*queues_[0].second);
  for (std::thread& worker : workers) worker.join();
  try {  // wherever it ended: what the caller does next comes after all of it
    for (State& state : states_.states())
      if (state.node) current_stream(state.stream.device()).wait(state.stream);
  } catch (const CudaError&) {  // a device is lost
    stop(std::current_exception());
  }
  if (error_) std::rethrow_exception(error_);
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
  const profiler::OpRange range("ones_like", output);
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
