// A node that communicates, concurrently with the rest of backward.
#pragma once

#include <functional>
#include <utility>

#include "ferrite/autograd/node.h"

namespace ferrite::autograd {

/// A node that runs as soon as its last gradient has arrived, before any other node that is ready
/// on its device. It runs on a stream of its own, which no other node's stream waits for before the
/// pass ends. Leaves that it leads to get their final gradient on that stream too: gradients from
/// other nodes are summed first, and those from side nodes are added to the sum, whatever their
/// order of arrival.
class SideNode final : public Node {
 public:
  using Backward = std::function<Gradients(Gradients&, Needs)>;

  /// The gradient may run any number of times.
  SideNode(const Stream& stream, std::uint32_t outputs, Backward backward)
      : Node(kName, stream, outputs), backward_(std::move(backward)) {}

  Gradients backward(Gradients outputs) override { return backward_(outputs, needs()); }
  void release_saved() override {}

  static bool is(const Node& node) { return node.name == kName; }

 private:
  static constexpr char kName[] = "replicate";  // its address distinguishes side nodes from others

  const Backward backward_;
};

}  // namespace ferrite::autograd
