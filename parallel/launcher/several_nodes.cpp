#include "parallel/launcher/several_nodes.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <random>
#include <system_error>

#include "core/error.h"
#include "parallel/launcher/host.h"
#include "parallel/launcher/rank_watch.h"
#include "parallel/launcher/single_node.h"

namespace ferrite::launcher {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int kDefaultPort = 29500;
/// What comes so soon after a failure may have been its cause.
constexpr auto kSettle = 300ms;

std::chrono::steady_clock::duration seconds_long(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

milliseconds answer_timeout(const Options& options) {
  if (options.heartbeat_timeout <= 0) return 30s;
  return std::chrono::duration_cast<milliseconds>(std::clamp<std::chrono::steady_clock::duration>(
      seconds_long(options.heartbeat_timeout), 2s, 30s));
}

Verdict end_of_job(int node, const std::string& why) {
  return {.kind = Verdict::Kind::stop,
          .first = RankReport{.node = node, .host = host_name(), .what = why, .final = true},
          .code = 1};
}

std::string reason_of(const std::string& verdict) {
  return verdict_of(verdict).first.value_or(RankReport{.what = "the job has ended"}).what;
}

std::string node_key(std::string_view name, int node) { return fmt::format("{}/{}", name, node); }

}  // namespace

parallel::Address agents_address(const Options& options) {
  std::string host = options.master_addr;
  int port = options.master_port.value_or(kDefaultPort);
  if (!options.rdzv_endpoint.empty()) {
    const Endpoint endpoint = parse_endpoint("--rdzv-endpoint", options.rdzv_endpoint);
    host = endpoint.host;
    port = endpoint.port.value_or(kDefaultPort);
  }
  return {host, static_cast<std::uint16_t>(port)};
}

SeveralNodes::SeveralNodes(const Options& options)
    : options_(options),
      address_(agents_address(options)),
      token_(job_token(options)),
      node_(options.node_rank.value_or(-1)),
      policy_(options, std::random_device()()),
      changed_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  serve_or_find();
  thread_ = std::thread([this] { talk(); });
}

SeveralNodes::~SeveralNodes() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void SeveralNodes::serve_or_find() {
  const bool may_serve = node_ == 0 || (node_ < 0 && is_this_machine(address_.host));
  if (!may_serve) return;
  const char* bind = std::getenv("FERRITE_BIND_ADDR");
  try {
    server_ = std::make_unique<parallel::TcpStoreServer>(parallel::TcpStoreServerOptions{
        .host = bind && *bind ? bind : address_.host, .port = address_.port, .token = token_});
    node_ = 0;
  } catch (const std::system_error& error) {
    // Without a node rank another agent of this machine may have come first.
    if (node_ < 0 && error.code().value() == EADDRINUSE) return;
    fail<DistributedError>(kOp, "node 0 cannot listen at {}: {}", address_.text(),
                           error.code().message());
  }
}

// ---- The agent's side

void SeveralNodes::ready(int round) {
  const std::lock_guard lock(mutex_);
  exchange_ = Exchange{.wanted = round, .verdict = lost_};
}

std::optional<Round> SeveralNodes::round() {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(changed_.get(), &count, sizeof count);
  // A verdict without a round: it could not begin.
  FERRITE_CHECK(exchange_.round || !exchange_.verdict, DistributedError, kOp, "{}",
                exchange_.verdict->first ? exchange_.verdict->first->what : "the job has ended");
  return exchange_.round;
}

void SeveralNodes::succeeded() {
  const std::lock_guard lock(mutex_);
  exchange_.succeeded = true;
}

void SeveralNodes::failed(const RankReport& report) {
  const std::lock_guard lock(mutex_);
  exchange_.failure = report;
}

std::optional<Verdict> SeveralNodes::verdict() {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(changed_.get(), &count, sizeof count);
  return exchange_.verdict;
}

void SeveralNodes::finish(milliseconds timeout) {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  if (!store_ || lost_) return;
  try {
    if (node_ != 0) {
      // A place that nobody takes any more, where the round has not begun.
      if (exchange_.round || node_ < 0) return;
      store_->erase(key(exchange_.wanted, node_key("node", node_)));
      store_->erase(key(exchange_.wanted, node_key("claim", node_)));
      return;
    }
    std::vector<std::string> others;
    for (int node = 1; node < options_.nnodes; ++node)
      others.push_back(node_key("agents/bye", node));
    const auto deadline = Clock::now() + timeout;
    while (exchange_.round && !store_->missing(others).empty() && Clock::now() < deadline)
      std::this_thread::sleep_for(10ms);
  } catch (const DistributedError&) {
    // Then nobody is there to be told.
  }
}

// ---- The thread's

void SeveralNodes::talk() {
  std::string lost;
  try {
    connect();
    int done = -1;
    while (!stop_) {
      int wanted = -1;
      {
        const std::lock_guard lock(mutex_);
        wanted = exchange_.wanted;
      }
      if (wanted <= done) {
        if (store_) beat();
        pause();
        continue;
      }
      join_round(wanted);
      if (stop_) return;
      int round = 0;
      {
        const std::lock_guard lock(mutex_);
        round = exchange_.round ? exchange_.round->number : wanted;
      }
      follow_round(round);
      done = round;
    }
  } catch (const std::exception& error) {
    lost = error.what();
  }
  if (lost.empty()) return;
  publish([&](Exchange& exchange) {
    lost_ = end_of_job(std::max(node_, 0), lost);
    if (!exchange.verdict || exchange.verdict->kind == Verdict::Kind::restart)
      exchange.verdict = lost_;
  });
}

void SeveralNodes::connect() {
  parallel::Address at = address_;
  if (server_) at = server_->address();
  const auto deadline = Clock::now() + seconds_long(options_.rdzv_timeout);
  // A port that an earlier job is just leaving answers with a refusal.
  const auto patience = Clock::now() + 15s;
  for (;;) {
    parallel::Connection connection =
        parallel::greet(at, token_, std::min(deadline, Clock::now() + 2s));
    if (connection.greeting == parallel::Greeting::accepted) {
      store_ =
          std::make_unique<parallel::TcpStore>(std::move(connection), at, answer_timeout(options_));
      return;
    }
    const bool refused = connection.greeting == parallel::Greeting::refused ||
                         connection.greeting == parallel::Greeting::other_version;
    if (Clock::now() > deadline || (refused && Clock::now() > patience))
      fail<DistributedError>(kOp, "the agent of node 0 is not to be reached: {}",
                             connection.detail);
    if (!pause()) return;
  }
}

/// Says that this node is ready for the round, or, where the job is further by now, for the one
/// that is on; waits for the others.
void SeveralNodes::join_round(int wanted) {
  if (!store_) return;
  const auto deadline = Clock::now() + seconds_long(options_.rdzv_timeout);
  int round = wanted;
  find_place(round, deadline);
  if (stop_) return;
  store_->set(key(round, node_key("node", node_)),
              to_json(NodeEntry{host_name(), options_.nproc_per_node}));
  Plan plan;
  if (node_ == 0) {
    plan = make_plan(round, deadline);
  } else {
    for (;;) {
      if (store_->check({key(round, "plan")})) break;
      if (store_->check({key(round, "verdict")}))
        fail<DistributedError>(kOp, "{}", reason_of(store_->get(key(round, "verdict"), 1s)));
      // Node 0 gives up first, and says why.
      FERRITE_CHECK(Clock::now() < deadline + 5s, DistributedError, kOp,
                    "node 0 has not started the workers in time");
      beat();
      if (!pause()) return;
    }
    plan = plan_of(store_->get(key(round, "plan"), 1s));
  }
  if (stop_) return;
  FERRITE_CHECK(plan.first_ranks.size() == static_cast<std::size_t>(options_.nnodes),
                DistributedError, kOp, "--nnodes={} here, but {} on node 0", options_.nnodes,
                plan.first_ranks.size());
  round_began_ = Clock::now();
  publish([&](Exchange& exchange) {
    exchange.round = Round{.number = round,
                           .node = node_,
                           .nnodes = options_.nnodes,
                           .first_rank = plan.first_ranks[static_cast<std::size_t>(node_)],
                           .world_size = plan.world_size,
                           .master_addr = plan.master_addr,
                           .master_port = plan.master_port,
                           .store = address_.text(),
                           .token = token_};
  });
}

bool SeveralNodes::claim(int round, int node) const {
  return store_->add(key(round, node_key("claim", node)), 1) == 1;
}

/// Takes this node's place in the round. An agent that comes while another one has it (the one in
/// whose place it was started, which is not yet known to be lost) waits for the next round.
void SeveralNodes::find_place(int& round, Clock::time_point deadline) {
  const bool anywhere = !options_.node_rank && node_ != 0;
  while (!stop_) {
    if (node_ != 0 && store_->check({"agents/round"})) {
      const std::string text = store_->get("agents/round", 1s);
      int now = 0;
      std::from_chars(text.data(), text.data() + text.size(), now);
      round = std::max(round, now);
    }
    // Where it had a place it takes that one, so that ranks stay where they were.
    if (anywhere && node_ > 0 && claim(round, node_)) return;
    for (int node = anywhere ? 1 : node_; node < (anywhere ? options_.nnodes : node_ + 1); ++node)
      if (claim(round, node)) {
        node_ = node;
        return;
      }
    FERRITE_CHECK(Clock::now() < deadline, DistributedError, kOp, "{}",
                  anywhere ? fmt::format("the job has all its {} nodes", options_.nnodes)
                           : fmt::format("there is a node {} already", node_));
    pause();
  }
}

Plan SeveralNodes::make_plan(int round, Clock::time_point deadline) {
  store_->set("agents/round", std::to_string(round));
  beats_.assign(static_cast<std::size_t>(options_.nnodes), {-1, Clock::now()});
  std::vector<std::string> keys;
  for (int node = 0; node < options_.nnodes; ++node)
    keys.push_back(key(round, node_key("node", node)));
  for (;;) {
    const std::vector<std::string> missing = store_->missing(keys);
    if (missing.empty()) break;
    if (Clock::now() > deadline) {
      std::string names;
      for (const std::string& name : missing)
        names += (names.empty() ? "" : ", ") + name.substr(name.rfind('/') + 1);
      give_up(round, fmt::format("{} of {} nodes have not come within {:.0f} s: {}", missing.size(),
                                 options_.nnodes, options_.rdzv_timeout, names));
    }
    make_room(round);
    beat();
    if (!pause()) return {};
  }
  Plan plan{.world_size = 0, .master_addr = address_.host, .master_port = free_port()};
  entries_.clear();
  for (const std::string& name : keys) {
    entries_.push_back(node_entry_of(store_->get(name, 1s)));
    plan.first_ranks.push_back(plan.world_size);
    plan.world_size += entries_.back().workers;
  }
  beats_.assign(static_cast<std::size_t>(options_.nnodes), {-1, Clock::now()});
  store_->set(key(round, "plan"), to_json(plan));
  return plan;
}

/// A node that came and went again before the round began leaves its place to another.
void SeveralNodes::make_room(int round) {
  if (options_.heartbeat_timeout <= 0) return;
  for (int node = 1; node < options_.nnodes; ++node) {
    Beat& beat = beats_[static_cast<std::size_t>(node)];
    const std::int64_t count = store_->add(node_key("agents/beat", node), 0);
    if (count != beat.count) beat = {count, Clock::now()};
    if (Clock::now() - beat.seen < seconds_long(options_.heartbeat_timeout)) continue;
    beat.seen = Clock::now();
    store_->erase(key(round, node_key("node", node)));
    store_->erase(key(round, node_key("claim", node)));
  }
}

/// Until its verdict.
void SeveralNodes::follow_round(int round) {
  bool told = false;
  for (;;) {
    beat();
    if (!told) told = tell(round);
    if (auto verdict = look(round)) {
      publish([&](Exchange& exchange) { exchange.verdict = verdict; });
      return;
    }
    if (stop_) return;
    pause();
  }
}

/// What this node has to say of its workers; whether it has been said.
bool SeveralNodes::tell(int round) {
  std::optional<RankReport> failure;
  bool succeeded = false;
  {
    const std::lock_guard lock(mutex_);
    failure = exchange_.failure;
    succeeded = exchange_.succeeded;
  }
  if (failure) {
    const std::int64_t number = store_->add(key(round, "failures"), 1);
    store_->set(key(round, node_key("failure", static_cast<int>(number))), to_json(*failure));
  } else if (succeeded) {
    store_->set(key(round, node_key("done", node_)), "");
  }
  return failure || succeeded;
}

/// Node 0 decides, the others read.
std::optional<Verdict> SeveralNodes::look(int round) {
  if (node_ != 0) {
    if (!store_->check({key(round, "verdict")})) return std::nullopt;
    const Verdict verdict = verdict_of(store_->get(key(round, "verdict"), 1s));
    if (verdict.kind != Verdict::Kind::restart) store_->set(node_key("agents/bye", node_), "");
    return verdict;
  }
  std::optional<Verdict> verdict;
  if (store_->check({key(round, "failure/1")})) {
    verdict = settle(round, report_of(store_->get(key(round, "failure/1"), 1s)));
  } else {
    std::vector<std::string> all;
    for (int node = 0; node < options_.nnodes; ++node)
      all.push_back(key(round, node_key("done", node)));
    if (store_->check(all)) verdict = Verdict{};
    if (!verdict) check_beats(round);
  }
  if (verdict) {
    if (verdict->kind == Verdict::Kind::restart)
      store_->set("agents/round", std::to_string(round + 1));
    store_->set(key(round, "verdict"), to_json(*verdict));
  }
  return verdict;
}

/// Failures that come together: a rank that a signal ended goes before one that ended by itself,
/// which it may have done for want of the other.
Verdict SeveralNodes::settle(int round, const RankReport& first) {
  const auto lived = Clock::now() - round_began_;
  RankReport chosen = first;
  bool final = first.final;
  const auto until = Clock::now() + kSettle;
  int next = 2;
  do {
    tell(round);
    for (; store_->check({key(round, node_key("failure", next))}); ++next) {
      const RankReport other = report_of(store_->get(key(round, node_key("failure", next)), 1s));
      final = final || other.final;
      if (chosen.code < 128 && other.code >= 128) chosen = other;
    }
    pause();
  } while (Clock::now() < until && !stop_);
  chosen.final = final;
  chosen.note = silent_ranks(*server_, chosen.rank, std::chrono::duration<double>(lived).count());
  return decide(policy_, chosen, lived);
}

/// A node whose agent is silent, or a rank that is.
void SeveralNodes::check_beats(int round) {
  if (options_.heartbeat_timeout <= 0) return;
  const auto report = [&](const RankReport& r) {
    const std::int64_t number = store_->add(key(round, "failures"), 1);
    store_->set(key(round, node_key("failure", static_cast<int>(number))), to_json(r));
  };
  const auto now = Clock::now();
  for (int node = 1; node < options_.nnodes; ++node) {
    Beat& beat = beats_[static_cast<std::size_t>(node)];
    const std::int64_t count = store_->add(node_key("agents/beat", node), 0);
    if (count != beat.count) beat = {count, now};
    const double silent = std::chrono::duration<double>(now - beat.seen).count();
    if (silent > options_.heartbeat_timeout)
      return report({.node = node,
                     .host = entries_[static_cast<std::size_t>(node)].host,
                     .what = fmt::format("its agent has not been heard of for {:.1f} s", silent)});
  }
  if (auto hung = hung_rank(*server_, options_.heartbeat_timeout,
                            std::chrono::duration<double>(now - round_began_).count()))
    report(*hung);
}

void SeveralNodes::beat() { store_->add(node_key("agents/beat", node_), 1); }

void SeveralNodes::publish(const std::function<void(Exchange&)>& change) {
  const std::lock_guard lock(mutex_);
  change(exchange_);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(changed_.get(), &one, sizeof one);
}

bool SeveralNodes::pause() {
  const auto until = Clock::now() + seconds_long(options_.monitor_interval);
  while (!stop_ && Clock::now() < until)
    std::this_thread::sleep_for(std::min<Clock::duration>(until - Clock::now(), 50ms));
  return !stop_;
}

std::string SeveralNodes::key(int round, std::string_view name) const {
  return fmt::format("agents/{}/{}", round, name);
}

/// Of node 0: ends the job on all nodes.
void SeveralNodes::give_up(int round, const std::string& why) {
  store_->set(key(round, "verdict"), to_json(end_of_job(0, why)));
  std::this_thread::sleep_for(1s);  // until the others have looked: the store ends with this node
  fail<DistributedError>(kOp, "{}", why);
}

}  // namespace ferrite::launcher
