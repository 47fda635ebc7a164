// The processes of this node, which the program starts itself, as the tutorials do that introduced
// -n, -g and -nr.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace examples::ddp {

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

/// Calls `train` in each process of this node (parallel::spawn), or here if a launcher has started
/// this one as a rank. ValueError if the options contradict each other or a launcher.
void run_on_node(const NodeOptions& options, const std::function<void()>& train);

}  // namespace examples::ddp
