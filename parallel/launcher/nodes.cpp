#include "parallel/launcher/nodes.h"

#include "parallel/launcher/host.h"
#include "parallel/launcher/restart_policy.h"
#include "parallel/launcher/single_node.h"

namespace ferrite::launcher {

std::unique_ptr<Nodes> make_nodes(const Options& options) {
  return std::make_unique<SingleNode>(options);
}

}  // namespace ferrite::launcher
