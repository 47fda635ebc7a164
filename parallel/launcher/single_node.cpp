#include "ferrite/parallel/launcher/single_node.h"

#include <random>

#include "ferrite/parallel/launcher/host.h"
#include "ferrite/parallel/launcher/rank_watch.h"

namespace ferrite::launcher {

Verdict decide(RestartPolicy& policy, const RankReport& report,
               std::chrono::duration<double> lived) {
  Verdict verdict{.kind = Verdict::Kind::stop, .first = report, .code = report.code};
  if (report.final) return verdict;
  if (const auto wait = policy.after(lived)) {
    verdict.kind = Verdict::Kind::restart;
    verdict.wait = wait->count();
    verdict.restarts_used = policy.used();
  }
  return verdict;
}

SingleNode::SingleNode(const Options& options)
    : options_(options), policy_(options, std::random_device()()) {
  round_.token = job_token(options);
  round_.world_size = options.nproc_per_node;
  round_.master_addr = options.master_addr.empty() ? "127.0.0.1" : options.master_addr;
  server_ = std::make_unique<parallel::bootstrap::TcpStoreServer>(
      parallel::bootstrap::TcpStoreServerOptions{.host = "127.0.0.1", .token = round_.token});
  round_.store = server_->address().text();
}

void SingleNode::ready(int round) {
  round_.number = round;
  round_.master_port = options_.master_port.value_or(0);
  if (round_.master_port == 0) round_.master_port = free_port();
  verdict_.reset();
  started_ = Clock::now();
}

void SingleNode::failed(const std::vector<RankReport>& reports) {
  RankReport noted = cause_of(reports, *server_, lived());
  noted.note = silent_ranks(*server_, noted.rank, lived());
  verdict_ = decide(policy_, noted, std::chrono::duration<double>(lived()));
}

bool SingleNode::lack_cause(const std::vector<RankReport>& reports) const {
  return is_consequence(cause_of(reports, *server_, lived()), *server_, lived());
}

double SingleNode::lived() const {
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

std::optional<Verdict> SingleNode::verdict() {
  if (!verdict_ && options_.heartbeat_timeout > 0)
    if (const auto hung = hung_rank(*server_, options_.heartbeat_timeout, lived())) failed({*hung});
  return verdict_;
}

}  // namespace ferrite::launcher
