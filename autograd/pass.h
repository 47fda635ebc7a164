// One backward pass. For the sources of this folder.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ferrite/autograd/autocast.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/state_map.h"

namespace ferrite::autograd {

class Pass;

inline thread_local constinit bool running_create_graph = false;
inline thread_local constinit Pass* running_pass = nullptr;

// ---- Anomaly mode (autograd/anomaly.cpp)
/// AutogradError if it is on and one of the gradients that `node` returned has a NaN.
void check_anomaly(const Node& node, const Gradients& results);
/// Adds where the operation of `node` was called, if that is known.
void note_call_stack(Error& error, const Node& node);

/// The thread-local modes of a thread that works for a pass.
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
  AutocastScope autocast_off_{nullptr};  // gradients keep the dtypes that were recorded
  bool outer_create_graph_;
  Pass* outer_pass_;
};

/// One backward pass.
class Pass {
 public:
  Pass(bool retain_graph, bool create_graph, bool accumulate)
      : retain_graph_(retain_graph), create_graph_(create_graph), accumulate_(accumulate) {}

  void add_root(const Edge& edge, const Tensor& gradient) { roots_.emplace_back(edge, gradient); }
  /// Stores the gradient that reaches `edge` as result `index`; for grad().
  void capture(const Edge& edge, std::size_t index) {
    captures_[key_of(edge)].push_back({edge.output, index});
  }
  void run();
  void at_end(std::function<void()> f) {
    std::lock_guard lock(mutex_);
    callbacks_.push_back(std::move(f));
  }
  Tensor take_partial(const Node& node, std::size_t input);
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
  void drain(const Device& of, Queue& queue);
  void stop(std::exception_ptr error);
  void process(State& state);
  State* deliver(const Edge& edge, Tensor grad, const Stream& from, bool from_side,
                 const State** joined);
  void join_side(State& state);
  void finish_leaf(State& state);
  Gradients run_node(State& state, Gradients grads);
  Gradients run_node_in_module(State& state, Gradients grads);
  void take_captures(const void* key, const Gradients& grads);
  void push(State* state);
  void run_from_roots(const std::vector<Stream>& made_on);
  void run_queues();
  void enqueue(State* state);
  void next_turn();
  void run_callbacks();
  /// Locks the state shared by the pass's threads, if it has several.
  std::unique_lock<std::mutex> lock_among_threads() {
    return queues_.size() > 1 ? std::unique_lock(mutex_)
                              : std::unique_lock(mutex_, std::defer_lock);
  }

  const bool retain_graph_, create_graph_, accumulate_;
  std::vector<std::pair<Edge, Tensor>> roots_;
  std::unordered_map<const void*, std::vector<Capture>> captures_;
  std::vector<Tensor> captured_;
  StateMap states_;
  std::vector<std::pair<Device, std::unique_ptr<Queue>>> queues_;  // one per device; usually only
                                                                   // one
  std::vector<State*> in_turn_;  // nodes that communicate, newest first; of several queues only
  std::size_t turn_ = 0;         // the first of them that is not done
  std::size_t ready_ = 0;        // nodes in queues or running
  std::mutex mutex_;             // guards states, queues and captures while several threads run
  std::size_t outstanding_ = 0;  // nodes and leaves not done
  std::exception_ptr error_;
  std::vector<std::function<void()>> callbacks_;
};

}  // namespace ferrite::autograd
