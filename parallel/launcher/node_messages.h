// What agents write into their store, as JSON.
#pragma once

#include <string>
#include <vector>

#include "ferrite/parallel/launcher/nodes.h"

namespace ferrite::launcher {

/// A node that is ready for a round.
struct NodeEntry {
  std::string host;
  int workers = 1;
  int next = 0;           ///< the number of the round, as far as this node knows
  int restarts_used = 0;  ///< likewise
};
/// What all nodes start from.
struct Plan {
  int number = 0;  ///< of the round
  int restarts_used = 0, max_restarts = 0;
  std::vector<int> first_ranks;  ///< by node
  int world_size = 1;
  std::string master_addr;
  int master_port = 0;
};

std::string to_json(const NodeEntry& entry);
std::string to_json(const Plan& plan);
std::string to_json(const RankReport& report);
std::string to_json(const Verdict& verdict);

/// DistributedError where the text is none of those.
NodeEntry node_entry_of(const std::string& text);
Plan plan_of(const std::string& text);
RankReport report_of(const std::string& text);
Verdict verdict_of(const std::string& text);

}  // namespace ferrite::launcher
