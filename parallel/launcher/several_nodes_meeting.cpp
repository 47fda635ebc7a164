// From contact with node 0's store to the start of a round.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/bootstrap/rendezvous_file.h"
#include "ferrite/parallel/launcher/host.h"
#include "ferrite/parallel/launcher/several_nodes.h"

namespace ferrite::launcher {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Limit of one connection attempt.
constexpr auto kAttempt = 2s;
/// A port that an earlier job is just leaving answers with a refusal.
constexpr auto kRefusalPatience = 15s;
/// Node 0 gives up first, and reports why.
constexpr auto kNodeZeroFirst = 5s;

/// A request that takes longer is repeated on another connection.
milliseconds answer_timeout(const Options& options) {
  if (options.heartbeat_timeout <= 0) return 10s;
  return std::chrono::duration_cast<milliseconds>(std::clamp<std::chrono::steady_clock::duration>(
      seconds_long(options.heartbeat_timeout / 2), 2s, 10s));
}

}  // namespace

void SeveralNodes::connect() {
  const parallel::links::Address at = server_ ? server_->address() : address_;
  parallel::bootstrap::Connection connection =
      parallel::bootstrap::greet(at, token_, Clock::now() + kAttempt);
  const bool refused = connection.greeting == parallel::bootstrap::Greeting::refused ||
                       connection.greeting == parallel::bootstrap::Greeting::other_version;
  if (!refused) refused_since_.reset();
  if (refused && !refused_since_) refused_since_ = Clock::now();
  FERRITE_CHECK(!refused || Clock::now() - *refused_since_ < kRefusalPatience, PermanentError, kOp,
                "the agent of node 0 is not to be reached: {}", connection.detail);
  if (connection.greeting != parallel::bootstrap::Greeting::accepted)
    throw DistributedError(connection.detail);
  store_ = std::make_unique<parallel::bootstrap::TcpStore>(std::move(connection), at,
                                                           answer_timeout(options_));
  if (node_ == 0) {
    if (job_.empty()) job_ = parallel::bootstrap::random_token();
    store_->set("agents/job", job_);
  } else {
    job_ = store_->get("agents/job", kAttempt);
  }
  heard_ = Clock::now();
}

void SeveralNodes::disconnect(const std::string& why) {
  store_.reset();
  why_lost_ = why;
}

void SeveralNodes::give_up_contact() const {
  fail<PermanentError>(
      kOp,
      "the agent of node 0 is not to be reached at {} for {:.1f} s (--rdzv-timeout={:g}): "
      "{}. Is it running, with the same --master-addr, --master-port and FERRITE_TOKEN, "
      "and does the network let this node through?",
      address_.text(), without_contact(), options_.rdzv_timeout, why_lost_);
}

/// Reports that this node is ready for the next round, and waits for the others. False if the job
/// has ended in the meantime, or the agent must end.
bool SeveralNodes::join_round(int wanted, Clock::time_point deadline) {
  std::optional<Plan> plan;
  while (!plan) {
    if (!find_place(wanted, deadline)) return false;
    store_->set(key(node_key("node", node_)), to_json(NodeEntry{.host = host_name(),
                                                                .workers = options_.nproc_per_node,
                                                                .next = wanted,
                                                                .restarts_used = policy_.used()}));
    plan = node_ == 0 ? make_plan(wanted, deadline) : wait_for_plan(deadline);
    if (stop_) return false;
  }
  FERRITE_CHECK(plan->first_ranks.size() == static_cast<std::size_t>(options_.nnodes),
                PermanentError, kOp, "--nnodes={} here, but {} on node 0", options_.nnodes,
                plan->first_ranks.size());
  last_ = place_;
  left_round_.reset();
  told_success_ = false;
  told_failures_ = 0;
  number_ = plan->number;
  round_began_ = beats_checked_ = Clock::now();
  policy_.follow(plan->restarts_used, plan->max_restarts);
  publish([&](Exchange& exchange) {
    exchange.round = Round{.number = plan->number,
                           .node = node_,
                           .nnodes = options_.nnodes,
                           .first_rank = plan->first_ranks[static_cast<std::size_t>(node_)],
                           .world_size = plan->world_size,
                           .master_addr = plan->master_addr,
                           .master_port = plan->master_port,
                           .store = address_.text(),
                           .token = token_};
  });
  return true;
}

// ---- Places

/// Takes this node's place in the coming round. An agent that arrives while another one has the
/// place (its predecessor, whose loss is not yet known) waits for the next round. False if there is
/// none any more.
bool SeveralNodes::find_place(int wanted, Clock::time_point deadline) {
  bool announced = false;
  for (; !stop_; pause()) {
    if (node_ == 0) {
      place_ = {job_, wanted};
    } else if (store_->check({"agents/round"})) {
      const std::string text = store_->get("agents/round", 1s);
      place_.job = job_;
      std::from_chars(text.data(), text.data() + text.size(), place_.round);
      announced = true;
    }
    const bool again = place_.job == last_.job && place_.round <= last_.round;
    if (again) {
      settle_last_round();
      beat();
    }
    if (announced && job_has_ended()) return false;
    if ((announced || node_ == 0) && !again && take_place()) return true;
    FERRITE_CHECK(Clock::now() < deadline + (again ? kNodeZeroFirst : 0s), PermanentError, kOp,
                  "{} within {:g} s (--rdzv-timeout)",
                  again        ? "node 0 has not begun another round"
                  : !announced ? "node 0 has not begun to gather the nodes"
                  : options_.node_rank || node_ == 0
                      ? fmt::format("there is a node {} already, which has "
                                    "not left its place",
                                    node_)
                      : fmt::format("the job has all its {} nodes, and none "
                                    "has left its place",
                                    options_.nnodes),
                  options_.rdzv_timeout);
  }
  return false;
}

/// Node 0 may still wait for workers that were stopped here during the loss of contact.
void SeveralNodes::settle_last_round() {
  if (!left_round_ || store_->check({key(last_, "verdict")})) return;
  report(last_, *left_round_);
  left_round_.reset();
}

bool SeveralNodes::job_has_ended() {
  if (!store_->check({key("verdict")})) return false;
  const Verdict verdict = verdict_of(store_->get(key("verdict"), 1s));
  if (verdict.kind == Verdict::Kind::restart) return false;
  publish([&](Exchange& exchange) { exchange.verdict = verdict; });
  announce_end(verdict.kind);
  return true;
}

bool SeveralNodes::take_place() {
  const bool anywhere = !options_.node_rank && node_ != 0;
  // If it had a place it takes that one, so that ranks stay where they were.
  if (node_ >= 0 && claim(node_)) return true;
  for (int node = 1; anywhere && node < options_.nnodes; ++node)
    if (claim(node)) {
      node_ = node;
      return true;
    }
  return false;
}

/// Also succeeds if the place is already ours, and the answer was lost.
bool SeveralNodes::claim(int node) {
  const std::string name = key(node_key("claim", node));
  if (const std::int64_t holder = store_->add(name, 0); holder != 0) return holder == id_;
  if (store_->add(name, id_) == id_) return true;
  store_->add(name, -id_);
  return false;
}

// ---- The plan

std::optional<Plan> SeveralNodes::wait_for_plan(Clock::time_point deadline) {
  for (;;) {
    const bool planned = store_->check({key("plan")});
    // Node 0 gives the place of a silent agent to others.
    if (store_->add(key(node_key("claim", node_)), 0) != id_ || store_->check({key("verdict")}))
      return std::nullopt;
    if (planned) return plan_of(store_->get(key("plan"), 1s));
    FERRITE_CHECK(Clock::now() < deadline + kNodeZeroFirst, PermanentError, kOp,
                  "node 0 has not started the workers within {:g} s (--rdzv-timeout)",
                  options_.rdzv_timeout);
    beat();
    if (!pause()) return std::nullopt;
  }
}

std::optional<Plan> SeveralNodes::make_plan(int wanted, Clock::time_point deadline) {
  announce(wanted);
  beats_.assign(static_cast<std::size_t>(options_.nnodes), {-1, Clock::now()});
  std::vector<std::string> keys;
  for (int node = 0; node < options_.nnodes; ++node) keys.push_back(key(node_key("node", node)));
  for (;;) {
    const std::vector<std::string> missing = store_->missing(keys);
    if (missing.empty()) break;
    if (Clock::now() > deadline) {
      std::string names;
      for (const std::string& name : missing)
        names += (names.empty() ? "" : ", ") + name.substr(name.rfind('/') + 1);
      const std::string why =
          fmt::format("{} of {} nodes have not arrived within {:g} s (--rdzv-timeout): {}",
                      missing.size(), options_.nnodes, options_.rdzv_timeout, names);
      end_job(why);
      fail<PermanentError>(
          kOp,
          "{}\nAre their agents running, with --master-addr={} and the same port and "
          "FERRITE_TOKEN, and does the network let them through?",
          why, address_.host);
    }
    make_room();
    beat();
    if (!pause()) return std::nullopt;
  }
  Plan plan{
      .number = wanted, .world_size = 0, .master_addr = address_.host, .master_port = free_port()};
  entries_.clear();
  int used = policy_.used();
  for (const std::string& name : keys) {
    const NodeEntry entry = node_entry_of(store_->get(name, 1s));
    plan.first_ranks.push_back(plan.world_size);
    plan.world_size += entry.workers;
    // If an earlier agent of node 0 began the job, the others know more.
    if (entry.next > wanted) used = std::max(used, entry.restarts_used);
    plan.number = std::max(plan.number, entry.next);
    entries_.push_back(entry);
  }
  plan.restarts_used = used;
  plan.max_restarts = options_.max_restarts;
  beats_.assign(static_cast<std::size_t>(options_.nnodes), {-1, Clock::now()});
  store_->set(key("plan"), to_json(plan));
  return plan;
}

/// A node that left again before the round began makes room for another.
void SeveralNodes::make_room() {
  if (options_.heartbeat_timeout <= 0) return;
  for (int node = 1; node < options_.nnodes; ++node) {
    Beat& beat = beats_[static_cast<std::size_t>(node)];
    const std::int64_t count = store_->add(node_key("agents/beat", node), 0);
    if (count != beat.count) beat = {count, Clock::now()};
    if (Clock::now() - beat.seen < seconds_long(options_.heartbeat_timeout)) continue;
    beat.seen = Clock::now();
    store_->erase(key(node_key("node", node)));
    store_->erase(key(node_key("claim", node)));
  }
}

void SeveralNodes::announce(int round) {
  store_->set("agents/round", std::to_string(round));
  announced_ = round;
}

/// Node 0 tells the others that no round follows. Other nodes release their place for another
/// agent.
void SeveralNodes::end_job(const std::string& why) {
  if (!store_) return;
  try {
    if (node_ == 0) {
      store_->set(key({job_, announced_}, "verdict"), to_json(end_of_job(0, why)));
      std::this_thread::sleep_for(
          1s);  // until the others have looked: the store ends with this node
    } else if (node_ > 0 && place_.round > last_.round) {
      store_->erase(key(node_key("node", node_)));
      store_->erase(key(node_key("claim", node_)));
    }
  } catch (const DistributedError&) {
    // Then there are no nodes left to notify.
  }
}

}  // namespace ferrite::launcher
