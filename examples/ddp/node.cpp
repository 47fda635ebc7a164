#include "ferrite/examples/ddp/node.h"

#include <cstdlib>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/bootstrap/spawn.h"

namespace examples::ddp {

namespace {

using ferrite::ValueError;
namespace parallel = ferrite::parallel;

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

/// The variable in which a launcher has passed this process its rank; null without a launcher.
const char* launched_by(bool asked_for_processes) {
  if (parallel::is_spawned()) return nullptr;
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (variable(name)) return name;
  // A SLURM batch script also has it, before srun.
  return !asked_for_processes && variable("SLURM_PROCID") ? "SLURM_PROCID" : nullptr;
}

}  // namespace

void run_on_node(const NodeOptions& options, const std::function<void()>& train) {
  if (const char* launched = launched_by(options.given())) {
    FERRITE_CHECK(
        !options.given(), ValueError, "-n, -g, -nr",
        "a launcher has started this process and set {}={}: it determines the number of processes",
        launched, variable(launched));
    return train();
  }
  const int nodes = options.nodes.value_or(1), node_rank = options.node_rank.value_or(0);
  FERRITE_CHECK(node_rank < nodes, ValueError, "-nr",
                "expected a number from 0 to {}, below the number of nodes (-n), got {}", nodes - 1,
                node_rank);
  FERRITE_CHECK(nodes == 1 || !options.master_addr.empty() || variable("MASTER_ADDR"), ValueError,
                "-n",
                "several nodes need a common address: on all nodes, set --master-addr or "
                "MASTER_ADDR to the address of the node with -nr 0");
  parallel::SpawnOptions spawn{.nodes = nodes,
                               .node_rank = node_rank,
                               .master_addr = options.master_addr,
                               .master_port = options.master_port};
  if (nodes > 1 && spawn.master_port == 0 && !variable("MASTER_PORT")) spawn.master_port = 29500;
  parallel::spawn([&](int) { train(); }, options.processes.value_or(1), spawn);
}

}  // namespace examples::ddp
