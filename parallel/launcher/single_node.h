// The Nodes implementation of a job with a single node.
#pragma once

#include <chrono>
#include <memory>

#include "ferrite/parallel/comm/bootstrap/tcp_store_server.h"
#include "ferrite/parallel/launcher/nodes.h"
#include "ferrite/parallel/launcher/restart_policy.h"

namespace ferrite::launcher {

class SingleNode final : public Nodes {
 public:
  explicit SingleNode(const Options& options);
  void ready(int round) override;
  std::optional<Round> round() override { return round_; }
  void succeeded() override { verdict_ = Verdict{}; }
  void failed(const std::vector<RankReport>& reports) override;
  bool lack_cause(const std::vector<RankReport>& reports) const override;
  std::optional<Verdict> verdict() override;
  int fd() const override { return -1; }
  bool left() override { return true; }

 private:
  using Clock = std::chrono::steady_clock;
  double lived() const;  ///< seconds since the start of the round

  Options options_;
  RestartPolicy policy_;
  Round round_;
  std::unique_ptr<parallel::bootstrap::TcpStoreServer> server_;
  std::optional<Verdict> verdict_;
  Clock::time_point started_{};
};

/// The verdict on a round after `report`.
Verdict decide(RestartPolicy& policy, const RankReport& report,
               std::chrono::duration<double> lived);

}  // namespace ferrite::launcher
