// Nodes: communication and agreement between the agents of a job's nodes. No member blocks.
#pragma once

#include <signal.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/parallel/launcher/options.h"

namespace ferrite::launcher {

/// The end of one rank: how it failed, or how it ended after others had failed.
struct RankReport {
  int rank = -1, local_rank = -1;  ///< -1 if the node itself is to blame, not a rank
  int node = 0;
  std::string host;
  int pid = 0;
  int code = 1;        ///< the launcher's exit status if it ends with this
  std::string what;    ///< "was ended by SIGKILL"
  double at = 0;       ///< seconds since 1970, on the node's clock
  double after = 0;    ///< seconds since its start
  std::string tail;    ///< the last lines of its stderr
  std::string note;    ///< additional information: "" or a line
  bool final = false;  ///< a restart would not help, or is not wanted
};

/// Whether a signal ended it, or a process that it had started and whose status it passed on.
inline bool by_signal(const RankReport& report) {
  return report.code > 128 && report.code < 128 + NSIG;
}

/// One start of the workers, the same on all nodes except for the node's own part.
struct Round {
  int number = 0;  ///< 0, 1, ...: FERRITE_RESTART_COUNT
  int node = 0, nnodes = 1;
  int first_rank = 0;  ///< of this node
  int world_size = 1;
  std::string master_addr;
  int master_port = 0;  ///< on node 0, for the programs' own use
  std::string store;    ///< where node 0's agent serves the store, host:port; empty if it does not
  std::string token;
};

struct Verdict {
  enum class Kind : std::uint8_t { done, restart, stop } kind = Kind::done;
  std::optional<RankReport> first = {};  ///< the first failure
  double wait = 0;                       ///< seconds before the restart
  int restarts_used = 0;
  int code = 0;  ///< for done and stop: the launcher's exit status
};

class Nodes {
 public:
  virtual ~Nodes() = default;

  /// This node is ready for the round with this number.
  virtual void ready(int round) = 0;
  /// Available once all nodes are ready. If the job has ended before, there is a verdict instead.
  virtual std::optional<Round> round() = 0;
  /// All workers of this node have succeeded.
  virtual void succeeded() = 0;
  /// Workers have failed together, or the node cannot continue. The first report is the most likely
  /// cause, as far as the agent can tell.
  virtual void failed(const std::vector<RankReport>& reports) = 0;
  /// Whether all of these failures are known to be consequences of others.
  virtual bool lack_cause(const std::vector<RankReport>& reports) const = 0;
  /// Available once the outcome of the round is decided.
  virtual std::optional<Verdict> verdict() = 0;
  /// Readable when there may be an answer; -1 if answers are immediate.
  virtual int fd() const = 0;
  /// After a verdict that ends the job: whether the other nodes know of it, or have timed out.
  virtual bool left() = 0;
};

/// Node 0 of any number of nodes, or another one. Call it once, after signals are blocked: it may
/// start threads. DistributedError if it cannot listen.
std::unique_ptr<Nodes> make_nodes(const Options& options);

}  // namespace ferrite::launcher
