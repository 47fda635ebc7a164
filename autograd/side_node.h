// A node that communicates: it runs beside the rest of backward.
#pragma once

#include <functional>
#include <utility>

#include "ferrite/autograd/node.h"

namespace ferrite::autograd {

/// A node that runs as soon as its last gradient is there, before any other that is ready on its
/// device, and on a stream of its own that no other node's waits for before the pass ends. Leaves
/// that it leads to get their final gradient on that stream too: what reaches them in other ways is
/// summed first, and what comes from side nodes is added to that, whenever it came.
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
  static constexpr char kName[] = "replicate";  // the address tells side nodes from others

  const Backward backward_;
};

}  // namespace ferrite::autograd
