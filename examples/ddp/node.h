// The processes of this node, which the program starts itself: what torch.multiprocessing.spawn
// does in the tutorials that -n, -g and -nr are known from.
#pragma once

#include <optional>
#include <string>

namespace examples {

struct NodeOptions {
  std::optional<int> nodes;      ///< -n: how many; 1 where not given
  std::optional<int> processes;  ///< -g: of each node, one a GPU; 1 where not given
  std::optional<int> node_rank;  ///< -nr: which of them this is; 0 where not given
  /// Where rank 0 listens, for several nodes: else MASTER_ADDR and MASTER_PORT, 29500.
  std::string master_addr;
  int master_port = 0;

  bool given() const { return nodes || processes || node_rank; }
};

/// Starts this program again with its arguments, as ranks node_rank * processes to (node_rank + 1)
/// * processes - 1 of nodes * processes, in the environment that init_process_group() reads, and
/// waits for all; gives the exit status. Where one fails the others are ended, and its status is
/// given. Nothing where this process is to be a rank itself: one of those, one that a launcher has
/// started, or the only one, for which the environment is set. ValueError where the options
/// contradict each other or a launcher.
std::optional<int> start_node(const NodeOptions& options, char** argv);

}  // namespace examples
