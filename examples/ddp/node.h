// The processes of this node, which the program starts itself, like torch.multiprocessing.spawn in
// the tutorials that introduced -n, -g and -nr.
#pragma once

#include <optional>
#include <string>

namespace examples {

struct NodeOptions {
  std::optional<int> nodes;      ///< -n: number of nodes; default 1
  std::optional<int> processes;  ///< -g: processes per node, one per GPU; default 1
  std::optional<int> node_rank;  ///< -nr: index of this node; default 0
  /// The address at which rank 0 listens, with several nodes. Default: MASTER_ADDR and MASTER_PORT,
  /// 29500.
  std::string master_addr;
  int master_port = 0;

  bool given() const { return nodes || processes || node_rank; }
};

/// Starts this program again with its arguments, as ranks node_rank * processes to (node_rank + 1)
/// * processes - 1 of nodes * processes, in the environment that init_process_group() reads, and
///   waits for all of them; returns the exit status. If one fails, the others are terminated, and
///   its status is returned. Returns nullopt if this process is itself a rank: one of these, one
///   that a launcher has started, or the only one, for which it sets the environment. ValueError if
///   the options contradict each other or a launcher.
std::optional<int> start_node(const NodeOptions& options, char** argv);

}  // namespace examples
