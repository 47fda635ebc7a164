#include "ferrite/parallel/launcher/nodes.h"

#include "ferrite/parallel/launcher/several_nodes.h"
#include "ferrite/parallel/launcher/single_node.h"

namespace ferrite::launcher {

std::unique_ptr<Nodes> make_nodes(const Options& options) {
  if (options.nnodes > 1) return std::make_unique<SeveralNodes>(options);
  return std::make_unique<SingleNode>(options);
}

}  // namespace ferrite::launcher
