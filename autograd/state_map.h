// The state of each node and leaf in a backward pass.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "ferrite/autograd/node.h"

namespace ferrite::autograd {

/// The state of one node or leaf during one pass.
struct State {
  Node* node = nullptr;  // null for leaves
  Tensor leaf;
  std::uint32_t waiting = 0;  // edges that have not delivered their gradient yet
  // In grad(): whether a requested input is this one or lies beyond it.
  bool needed = true, captured = false, seen = false;
  bool early = false, done = false;  // of a node that communicates: ready before its turn
  bool side = false;                 // a side node; a leaf that one leads to
  Stream stream;                     // the stream on which its gradient is accumulated
  Stream side_stream;                // for a leaf that a side node leads to: that node's stream
  Gradients grads;  // one per output; for a leaf: [0] from ordinary nodes, [1] from a side node

  bool wants_gradient() const { return needed || captured; }
};

inline const void* key_of(const Edge& edge) {
  return edge.node ? static_cast<const void*>(edge.node.get()) : edge.leaf.impl();
}

/// An open-addressing map from a node or leaf to its State, whose address is stable.
class StateMap {
 public:
  StateMap() : slots_(64) {}

  State* find(const void* key) {
    for (std::size_t i = hash(key);; ++i) {
      Slot& slot = slots_[i & (slots_.size() - 1)];
      if (!slot.key || slot.key == key) return slot.key ? slot.state : nullptr;
    }
  }
  /// The state of `key`, and whether it was inserted.
  std::pair<State*, bool> insert(const void* key) {
    for (std::size_t i = hash(key);; ++i) {
      Slot& slot = slots_[i & (slots_.size() - 1)];
      if (slot.key == key) return {slot.state, false};
      if (slot.key) continue;
      if (2 * (states_.size() + 1) > slots_.size()) {
        grow();
        return insert(key);
      }
      slot = {key, &states_.emplace_back()};
      return {slot.state, true};
    }
  }
  std::deque<State>& states() { return states_; }

 private:
  struct Slot {
    const void* key = nullptr;
    State* state = nullptr;
  };

  static std::size_t hash(const void* key) {
    return (reinterpret_cast<std::uintptr_t>(key) * 0x9E3779B97F4A7C15u) >> 20;
  }
  void grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.size() * 2, {});
    for (const Slot& slot : old) {
      if (!slot.key) continue;
      std::size_t i = hash(slot.key);
      while (slots_[i & (slots_.size() - 1)].key) ++i;
      slots_[i & (slots_.size() - 1)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::deque<State> states_;
};

}  // namespace ferrite::autograd
