// A pass: which nodes it reaches, in which order and on which threads they run.
#include "ferrite/autograd/pass.h"

#include <thread>

#include "ferrite/autograd/side_node.h"
#include "ferrite/core/cuda_control.h"
#include "ferrite/core/device.h"
#include "ferrite/core/error.h"
#include "ferrite/core/thread_name.h"

namespace ferrite::autograd {

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
    if (state->node->communicates) in_turn_.push_back(state);
    // The memory it writes may be in use on the current stream.
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
  // Depth first, so that every target is visited before the nodes that lead to it.
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
  if (!in_turn_.empty() && state->node->communicates && in_turn_[turn_] != state)
    state->early = true;
  else
    enqueue(state);
}

void Pass::enqueue(State* state) {
  ++ready_;
  const Device& device = state->node->stream.device();
  for (auto& [d, queue] : queues_)
    if (d == device) {
      queue->heap.push_back(state);
      std::ranges::push_heap(queue->heap, older);
      if (queues_.size() > 1) queue->changed.notify_one();
      return;
    }
}

/// Lets the next node that communicates run if it is ready. Numbers of nodes are in order within a
/// thread of forward only: where the order of several threads leaves nothing else to do, a node
/// runs before its turn.
void Pass::next_turn() {
  while (turn_ < in_turn_.size() && in_turn_[turn_]->done) ++turn_;
  for (std::size_t i = turn_; i < in_turn_.size() && (i == turn_ || ready_ == 0); ++i)
    if (std::exchange(in_turn_[i]->early, false)) enqueue(in_turn_[i]);
}

void Pass::stop(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  for (auto& [device, queue] : queues_) queue->changed.notify_all();
}

void Pass::drain(const Device& of, Queue& queue) {
  const PassMode mode(*this, create_graph_);
  try {
    const cuda::DeviceScope device(of);  // for hooks and functions that name Device("cuda")
    for (;;) {
      State* state = nullptr;
      {
        std::unique_lock lock = lock_among_threads();
        if (lock)
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

namespace {

/// Maximum depth of nested passes (hooks that call backward) on one thread's stack.
constexpr int kDeepest = 60;
thread_local constinit int depth = 0;

}  // namespace

void Pass::run() {
  discover();
  if (queues_.size() > 1)
    std::ranges::sort(in_turn_, std::greater(), [](const State* s) { return s->node->sequence; });
  else
    in_turn_.clear();  // one device runs all nodes newest first
  if (!accumulate_) mark_needed();
  std::vector<Stream> made_on;  // the roots' gradients
  for (const auto& [edge, gradient] : roots_) made_on.push_back(current_stream(gradient.device()));
  if (depth < kDeepest) {
    const struct Deeper {
      Deeper() { ++depth; }
      ~Deeper() { --depth; }
    } deeper;
    run_from_roots(made_on);
  } else {
    std::thread([&, default_device = get_default_device()] {
      ferrite::detail::name_thread("backward");
      const DefaultDeviceScope device(default_device);
      try {
        run_from_roots(made_on);
      } catch (...) {
        stop(std::current_exception());
      }
    }).join();
  }
  try {  // whatever the outcome: the caller's next work is ordered after all of it
    for (State& state : states_.states())
      if (state.node) current_stream(state.stream.device()).wait(state.stream);
  } catch (const CudaError&) {  // a device is lost
    stop(std::current_exception());
  }
  if (error_) std::rethrow_exception(error_);
  run_callbacks();
}

void Pass::run_from_roots(const std::vector<Stream>& made_on) {
  {
    const PassMode mode(*this, create_graph_);
    for (std::size_t i = 0; i < roots_.size(); ++i) {
      auto& [edge, gradient] = roots_[i];
      const State* joined = nullptr;
      State* leaf = deliver(edge, std::move(gradient), made_on[i], false, &joined);
      if (leaf) finish_leaf(*leaf);
    }
  }
  next_turn();
  if (!queues_.empty()) run_queues();
}

void Pass::run_callbacks() {
  for (std::size_t i = 0; i < callbacks_.size(); ++i) {
    const PassMode mode(*this, create_graph_);  // a callback may queue another
    const std::function<void()> callback = std::move(callbacks_[i]);
    callback();
  }
}

void Pass::run_queues() {
  // One worker per device; the calling thread serves the first device. Where that has another
  // default device than the host, the workers' is their own: hooks may make tensors.
  const bool host_is_default = get_default_device().is_host();
  std::vector<std::thread> workers;
  try {
    for (std::size_t i = 1; i < queues_.size(); ++i)
      workers.emplace_back([this, i, host_is_default] {
        ferrite::detail::name_thread("backward " + queues_[i].first.str());
        const DefaultDeviceScope device(host_is_default ? Device() : queues_[i].first);
        drain(queues_[i].first, *queues_[i].second);
      });
  } catch (...) {  // the system has no more threads
    stop(std::current_exception());
  }
  drain(queues_[0].first, *queues_[0].second);
  for (std::thread& worker : workers) worker.join();
}

}  // namespace ferrite::autograd
