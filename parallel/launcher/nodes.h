// Nodes: what the agents of a job's nodes tell each other and agree on. The agent asks; nothing
// here makes it wait.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/parallel/launcher/options.h"

namespace ferrite::launcher {

/// What becomes of one rank: how it failed, or how it ended after others had failed.
struct RankReport {
  int rank = -1, local_rank = -1;  ///< -1 where no rank is to blame but the node itself
  int node = 0;
  std::string host;
  int pid = 0;
  int code = 1;        ///< of the launcher, should it end with this
  std::string what;    ///< "was ended by SIGKILL"
  double at = 0;       ///< seconds since 1970, by the node's clock
  double after = 0;    ///< seconds since it was started
  std::string tail;    ///< the last lines of its stderr
  std::string note;    ///< what else is known: "" or a line
  bool final = false;  ///< starting again would not help, or is not wanted
};

/// One start of the workers, the same on all nodes but for its own part.
struct Round {
  int number = 0;  ///< 0, 1, ...: FERRITE_RESTART_COUNT
  int node = 0, nnodes = 1;
  int first_rank = 0;  ///< of this node
  int world_size = 1;
  std::string master_addr;
  int master_port = 0;  ///< of node 0, for the programs' own use
  std::string store;    ///< where node 0's agent serves the store, host:port; empty: nowhere
  std::string token;
};

struct Verdict {
  enum class Kind : std::uint8_t { done, restart, stop } kind = Kind::done;
  std::optional<RankReport> first = {};  ///< the first failure
  double wait = 0;                       ///< before the restart, seconds
  int restarts_used = 0;
  int code = 0;  ///< of done and stop: what the launcher ends with
};

class Nodes {
 public:
  virtual ~Nodes() = default;

  /// This node is ready for the round of this number.
  virtual void ready(int round) = 0;
  /// There once all nodes are. Where the job has ended before, there is a verdict instead.
  virtual std::optional<Round> round() = 0;
  /// All workers of this node have ended well.
  virtual void succeeded() = 0;
  /// One has failed, or the node cannot go on.
  virtual void failed(const RankReport& report) = 0;
  /// There once it is decided what becomes of the round.
  virtual std::optional<Verdict> verdict() = 0;
  /// Readable when there may be an answer to what was asked for; -1 where that is at once.
  virtual int fd() const = 0;
  /// After a verdict that ends the job: whether the other nodes know of it, or have had their time.
  virtual bool left() = 0;
};

/// Node 0 of any number of nodes, or another one. Called once, after signals are blocked: threads
/// may be started. DistributedError where it cannot listen.
std::unique_ptr<Nodes> make_nodes(const Options& options);

}  // namespace ferrite::launcher
