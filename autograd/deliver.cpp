// Delivery in a pass: runs one node and passes its gradients along its edges.
#include "ferrite/autograd/accumulate.h"
#include "ferrite/autograd/meta.h"
#include "ferrite/autograd/pass.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/elementwise.h"

namespace ferrite::autograd {

void Pass::take_captures(const void* key, const Gradients& grads) {
  std::lock_guard lock(mutex_);
  const auto it = captures_.find(key);
  if (it == captures_.end()) return;
  for (const Capture& c : it->second) {
    if (captured_.size() <= c.index) captured_.resize(c.index + 1);
    captured_[c.index] = grads[c.output];
  }
}

/// Adds to the target of `edge`; returns it if it is a leaf whose gradient is now final. `joined`
/// is the last state that waited for `from` since `from` received its last work.
State* Pass::deliver(const Edge& edge, Tensor grad, const Stream& from, bool from_side,
                     const State** joined) {
  State& state = *states_.find(key_of(edge));
  if (grad.defined() && state.wants_gradient()) {
    const bool beside = !state.node && from_side;
    const Stream& stream = beside ? state.side_stream : state.stream;
    Tensor& total = state.grads[state.node ? edge.output : beside];
    check_addable(total, grad, state.node ? state.node->name : "backward");
    // A backward may return a gradient on another device than its own; it is then summed on that
    // device rather than on the state's stream.
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

Tensor Pass::take_partial(const Node& node, std::size_t input) {
  if (create_graph_ || input >= node.edges.size() || !node.edges[input].node) return {};
  const std::unique_lock lock = lock_among_threads();
  State* const state = states_.find(key_of(node.edges[input]));
  if (!state || !state->wants_gradient()) return {};
  Tensor& total = state->grads[node.edges[input].output];
  const bool is_ours =
      total.defined() && is_overwritable(total) && state->stream == current_stream(total.device());
  return is_ours ? std::exchange(total, {}) : Tensor();
}

/// For a leaf: adds the gradient from side nodes to that from other nodes, on the side node's
/// stream.
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
      check_replacement(grad, replaced, "a leaf");
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
    check_accumulates(meta.grad, grad);
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

namespace {

/// The backward of the node before may compute something of a gradient of another shape.
void check_shapes(const Node& node, const Gradients& grads) {
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const Edge& edge = node.edges[i];
    if (!grads[i].defined() || !edge.valid()) continue;
    const Shape* const expected = edge.leaf.defined()       ? &edge.leaf.shape()
                                  : edge.node->output_shape ? &*edge.node->output_shape
                                                            : nullptr;
    FERRITE_CHECK(!expected || grads[i].shape() == *expected, AutogradError, node.name,
                  "its backward returned a gradient of {} for input {}, which is {}; a gradient "
                  "must have its input's shape",
                  grads[i].shape(), i, *expected);
  }
}

}  // namespace

Gradients Pass::run_node(State& state, Gradients grads) {
  Node& node = *state.node;
  const profiler::detail::NodeRange range(node.name, node.sequence);
  const CurrentNodeScope scope(&node);
  struct Restore {
    explicit Restore(const Node& node) : module(std::exchange(detail::module_path, node.module)) {}
    ~Restore() {
      detail::wanted_edges = wanted;
      detail::module_path = module;
    }
    const std::uint64_t wanted = std::exchange(detail::wanted_edges, ~std::uint64_t{0});
    const char* const module;
  };
  const Restore restore(node);
  try {
    return run_node_in_module(state, std::move(grads));
  } catch (Error& error) {
    error.set_path(node.module ? node.module : "");
    note_call_stack(error, node);
    throw;
  }
}

Gradients Pass::run_node_in_module(State& state, Gradients grads) {
  Node& node = *state.node;
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
  check_shapes(node, results);
  check_anomaly(node, results);
  return results;
}

void Pass::process(State& state) {
  Node& node = *state.node;
  Gradients grads = std::move(state.grads);
  Gradients results(node.edges.size());
  StreamGuard guard(node.stream);
  if (state.wants_gradient() && std::ranges::any_of(grads, &Tensor::defined))
    results = run_node(state, std::move(grads));
  // Data of nodes outside this pass is kept for another one.
  if (!retain_graph_ && state.needed) node.release_saved();

  InlineVector<State*, 3> final_leaves;
  const State* joined = nullptr;
  {
    const std::unique_lock lock = lock_among_threads();
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!node.edges[i].valid()) continue;
      State* leaf = deliver(node.edges[i], std::move(results[i]), node.stream, state.side, &joined);
      if (leaf) final_leaves.push_back(leaf);
    }
    --outstanding_;
    --ready_;
    state.done = true;
    next_turn();
    if (outstanding_ == 0 && queues_.size() > 1)
      for (auto& [device, queue] : queues_) queue->changed.notify_all();
  }
  for (State* leaf : final_leaves) finish_leaf(*leaf);
}

}  // namespace ferrite::autograd
