#include "autograd/side_node.h"

#include <utility>

#include "autograd/engine.h"

namespace ferrite::autograd {

SideNode::SideNode(const Stream& stream, std::uint32_t outputs, Backward backward,
                   std::shared_ptr<const void> kept)
    : Node(kName, stream, outputs), backward_(std::move(backward)), kept_(std::move(kept)) {}

Gradients SideNode::backward(Gradients outputs) { return backward_(outputs, needs()); }

void SideNode::release_saved() {
  // Nodes that are yet to run in this pass may use it.
  if (kept_) queue_callback([kept = std::exchange(kept_, nullptr)] {});
}

}  // namespace ferrite::autograd
