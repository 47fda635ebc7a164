// What the launcher learns from the heartbeats of process groups
// (parallel/comm/bootstrap/monitor.h), whose server runs in the agent of node 0.
//
// `lived`: the age of the current workers, in seconds. A rank that has been silent for longer
// belongs to an earlier start, because the server's data is slightly old.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ferrite/parallel/comm/bootstrap/tcp_store_server.h"
#include "ferrite/parallel/launcher/nodes.h"

namespace ferrite::launcher {

/// The rank that has been silent longest, if that is longer than `timeout` seconds.
std::optional<RankReport> hung_rank(const parallel::bootstrap::TcpStoreServer& server,
                                    double timeout, double lived);
/// A line about the ranks except `except` that have been silent for some seconds: a failed rank may
/// have waited for them. "" if there are none.
std::string silent_ranks(const parallel::bootstrap::TcpStoreServer& server, int except,
                         double lived);

/// Among failures that happened together, the one that caused the others as far as that is known: a
/// rank whose operations had failed because of others is no cause, and a rank that was ended by a
/// signal is preferred to one that exited. `failures` must not be empty.
const RankReport& cause_of(const std::vector<RankReport>& failures,
                           const parallel::bootstrap::TcpStoreServer& server, double lived);
/// Whether the rank failed because of another one.
bool is_consequence(const RankReport& failure, const parallel::bootstrap::TcpStoreServer& server,
                    double lived);

}  // namespace ferrite::launcher
