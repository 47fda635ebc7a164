// What the heartbeats of process groups (parallel/comm/bootstrap/monitor.h) tell the launcher,
// whose agent of node 0 serves them.
//
// `lived`: how long there have been these workers, in seconds. Who has been silent longer is of an
// earlier start, as what the server tells is a moment old.
#pragma once

#include <optional>
#include <string>

#include "ferrite/parallel/comm/bootstrap/tcp_store_server.h"
#include "ferrite/parallel/launcher/nodes.h"

namespace ferrite::launcher {

/// The rank that has been silent longest, where that is longer than `timeout` seconds.
std::optional<RankReport> hung_rank(const parallel::bootstrap::TcpStoreServer& server,
                                    double timeout, double lived);
/// A line on the ranks but `except` that have been silent for some seconds: one that failed may
/// have waited for them. "" where there are none.
std::string silent_ranks(const parallel::bootstrap::TcpStoreServer& server, int except,
                         double lived);

}  // namespace ferrite::launcher
