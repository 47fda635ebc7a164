// The agents of several nodes, which agree through the store served by the agent of node 0.
//
// agents/job names the job's store: another name belongs to an agent of node 0 that was restarted
// with an empty store. agents/round is the current round, whose keys begin with "agents/<round>/":
// claim/<n> holds the number of the agent that has node n's place, node/<n> exists once it is
// ready, plan once all are; then done/<n> for nodes whose workers have succeeded, failure/<i> in
// the order of the failures, and verdict, written by node 0, which ends the round. agents/beat/<n>
// counts while an agent is running; agents/bye/<n> is set by an agent that has read the last
// verdict.
//
// Contact may be lost at any time, by a network partition or the end of the other side. An agent
// then tries to reconnect for --rdzv-timeout. If it finds the same store and the same round,
// everything continues; if it finds another store, or is away for longer than --heartbeat-timeout,
// its workers are stopped, and it takes part in the next round. It passes its knowledge of earlier
// rounds (their number, the number of used restarts) to node 0, which may have been restarted.
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

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store_server.h"
#include "ferrite/parallel/launcher/node_messages.h"
#include "ferrite/parallel/launcher/nodes.h"
#include "ferrite/parallel/launcher/restart_policy.h"
#include "ferrite/parallel/launcher/worker.h"

namespace ferrite::launcher {

class SeveralNodes final : public Nodes {
 public:
  /// Serves the store if this is node 0, and starts the thread that communicates with it.
  /// DistributedError if it cannot listen.
  explicit SeveralNodes(const Options& options);
  ~SeveralNodes() override;

  void ready(int round) override;
  std::optional<Round> round() override;
  void succeeded() override;
  void failed(const std::vector<RankReport>& reports) override;
  bool lack_cause(const std::vector<RankReport>& reports) const override;
  std::optional<Verdict> verdict() override;
  int fd() const override { return changed_.get(); }
  bool left() override;

 private:
  using Clock = std::chrono::steady_clock;
  /// The agent's requests, and their results.
  struct Exchange {
    int wanted = -1;  ///< the round that this node is ready for
    std::optional<Round> round;
    std::vector<RankReport> failures;
    bool succeeded = false;
    std::optional<Verdict> verdict;
  };
  struct Beat {
    std::int64_t count = -1;
    Clock::time_point seen;
  };
  /// The keys of a round.
  struct Place {
    std::string job;
    int round = -1;
  };

  // The thread; its members throw DistributedError if contact is lost, and `PermanentError` if
  // another attempt would not help.
  void serve_or_find();
  void talk();
  void run_round(int wanted);
  void follow_round();
  void tell();
  std::optional<Verdict> look();
  int failures();
  Verdict settle(int first);
  void report(const Place& place, const RankReport& report);
  void check_beats();
  void beat();
  void announce_end(Verdict::Kind kind);
  std::optional<Verdict> verdict_without_contact();
  Verdict leave_round(const RankReport& why);
  bool ends_job(const RankReport& failure) const;
  // several_nodes_meeting.cpp: from contact to the start of a round
  void connect();
  void disconnect(const std::string& why);
  [[noreturn]] void give_up_contact() const;
  bool join_round(int wanted, Clock::time_point deadline);
  bool find_place(int wanted, Clock::time_point deadline);
  bool take_place();
  bool job_has_ended();
  bool claim(int node);
  void settle_last_round();
  std::optional<Plan> make_plan(int wanted, Clock::time_point deadline);
  std::optional<Plan> wait_for_plan(Clock::time_point deadline);
  void make_room();
  void announce(int round);
  void end_job(const std::string& why);

  Exchange exchange() const;
  void publish(const std::function<void(Exchange&)>& change);
  bool pause();  ///< for the monitor's interval; false if the agent ends
  bool pause(std::chrono::milliseconds longest);
  std::string key(std::string_view name) const { return key(place_, name); }
  static std::string key(const Place& place, std::string_view name);
  double without_contact() const;  ///< seconds
  double lived() const;            ///< seconds since the start of the round

  const Options options_;
  parallel::links::Address address_;
  std::string token_;
  const std::int64_t id_;  ///< of this agent
  int node_;
  RestartPolicy policy_;
  std::unique_ptr<parallel::bootstrap::TcpStoreServer> server_;

  // Used by the thread only:
  std::unique_ptr<parallel::bootstrap::TcpStore> store_;
  std::string job_;          ///< the job whose store it is, or was last
  Clock::time_point heard_;  ///< when node 0 last answered
  std::string why_lost_;     ///< the result of the last attempt
  std::optional<Clock::time_point> refused_since_;
  Place place_;                           ///< the place that this node has, or wants
  Place last_;                            ///< of the last round that began
  std::optional<RankReport> left_round_;  ///< why this node left it without node 0's verdict
  bool told_success_ = false;             ///< reports of the workers to node 0
  std::size_t told_failures_ = 0;         ///< likewise
  std::vector<Beat> beats_;
  Clock::time_point beats_checked_;
  std::vector<NodeEntry> entries_;
  Clock::time_point round_began_;
  int number_ = -1;    ///< of the current round
  int announced_ = 0;  ///< agents/round

  mutable std::mutex mutex_;
  Exchange exchange_;
  std::optional<Verdict> lost_;  ///< why contact is impossible
  bool left_ = false;
  std::atomic<bool> stop_ = false;
  Fd changed_;
  std::thread thread_;
};

/// Where the store listens, or is served, according to the options.
parallel::links::Address agents_address(const Options& options);

/// An error for which another attempt is useless.
struct PermanentError : DistributedError {
  using DistributedError::DistributedError;
};

std::chrono::steady_clock::duration seconds_long(double seconds);
/// "node/3".
std::string node_key(std::string_view name, int node);
Verdict end_of_job(int node, const std::string& why);

}  // namespace ferrite::launcher
