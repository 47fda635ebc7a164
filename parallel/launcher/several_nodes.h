// The agents of several nodes, which agree through the store that the agent of node 0 serves.
//
// A round's keys begin with "agents/<round>/": node/<n> of a node that is ready for it, plan once
// all are; then done/<n> of nodes whose workers have ended well, failure/<i> in the order in which
// failures came, and verdict, node 0's, which ends it. agents/round is the round that is on;
// agents/beat/<n> counts while an agent is there, agents/bye/<n> is set by one that has read the
// last verdict.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parallel/comm/tcp_store.h"
#include "parallel/comm/tcp_store_server.h"
#include "parallel/launcher/node_messages.h"
#include "parallel/launcher/nodes.h"
#include "parallel/launcher/restart_policy.h"
#include "parallel/launcher/worker.h"

namespace ferrite::launcher {

class SeveralNodes final : public Nodes {
 public:
  /// Serves the store where this is node 0, and starts the thread that talks to it.
  /// DistributedError where it cannot listen.
  explicit SeveralNodes(const Options& options);
  ~SeveralNodes() override;

  void ready(int round) override;
  std::optional<Round> round() override;
  void succeeded() override;
  void failed(const RankReport& report) override;
  std::optional<Verdict> verdict() override;
  int fd() const override { return changed_.get(); }
  void finish(std::chrono::milliseconds timeout) override;

 private:
  using Clock = std::chrono::steady_clock;
  /// What the agent has asked for, and what it gets.
  struct Exchange {
    int wanted = -1;  ///< the round that this node is ready for
    std::optional<Round> round;
    std::optional<RankReport> failure;
    bool succeeded = false;
    std::optional<Verdict> verdict;
  };
  struct Beat {
    std::int64_t count = -1;
    Clock::time_point seen;
  };

  void serve_or_find();
  void talk();  ///< the thread
  void connect();
  void join_round(int wanted);
  bool claim(int round, int node) const;
  void find_place(int& round, Clock::time_point deadline);
  Plan make_plan(int round, Clock::time_point deadline);
  void follow_round(int round);
  bool tell(int round);
  std::optional<Verdict> look(int round);
  Verdict settle(int round, const RankReport& first);
  void check_beats(int round);
  void beat();
  void make_room(int round);
  void publish(const std::function<void(Exchange&)>& change);
  bool pause();  ///< for the monitor's interval; false where the agent ends
  std::string key(int round, std::string_view name) const;
  [[noreturn]] void give_up(int round, const std::string& why);

  const Options options_;
  parallel::Address address_;
  std::string token_;
  int node_;
  RestartPolicy policy_;
  std::unique_ptr<parallel::TcpStoreServer> server_;
  std::unique_ptr<parallel::TcpStore> store_;
  std::vector<Beat> beats_;
  std::vector<NodeEntry> entries_;
  Clock::time_point round_began_{};

  mutable std::mutex mutex_;
  Exchange exchange_;
  std::optional<Verdict> lost_;  ///< why there is nobody to talk to any more
  std::atomic<bool> stop_ = false;
  Fd changed_;
  std::thread thread_;
};

/// Where the store is to listen, or is served: by the options of several nodes.
parallel::Address agents_address(const Options& options);

}  // namespace ferrite::launcher
