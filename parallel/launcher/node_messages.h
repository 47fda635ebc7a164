// The messages that agents write into their store, as JSON.
#pragma once

#include <string>
#include <vector>

#include "ferrite/parallel/launcher/nodes.h"

namespace ferrite::launcher {

/// A node that is ready for a round.
struct NodeEntry {
  std::string host;
  int workers = 1;
  int next = 0;           ///< the number of the round, as known to this node
  int restarts_used = 0;  ///< likewise
};
/// The starting point of all nodes.
struct Plan {
  int number = 0;  ///< number of the round
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

/// DistributedError if the text is not valid.
NodeEntry node_entry_of(const std::string& text);
Plan plan_of(const std::string& text);
RankReport report_of(const std::string& text);
Verdict verdict_of(const std::string& text);

}  // namespace ferrite::launcher
