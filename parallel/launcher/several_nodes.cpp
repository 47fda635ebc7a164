#include "ferrite/parallel/launcher/several_nodes.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <set>
#include <system_error>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/bootstrap/job_environment.h"
#include "ferrite/parallel/launcher/host.h"
#include "ferrite/parallel/launcher/rank_watch.h"
#include "ferrite/parallel/launcher/single_node.h"

namespace ferrite::launcher {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int kDefaultPort = 29500;
/// An event this soon after a failure may have been its cause.
constexpr auto kSettle = 300ms;
/// How long to wait for the cause of failures that are known to be consequences.
constexpr auto kWaitForCause = 2s;
/// A port may be held briefly by an agent that was killed.
constexpr auto kPortPatience = 5s;
/// Between attempts to reconnect.
constexpr auto kRetry = 500ms;
/// How long others have to learn that the job has failed.
constexpr auto kFarewell = 5s;
/// A connection that breaks and returns within these seconds does not end a job.
constexpr double kReconnectGrace = 2;
/// If the interval between heartbeat checks is longer than intended by this much, the thread was
/// stopped.
constexpr auto kPauseThreshold = 1s;

/// Small enough that the sums of agents that request one place do not overflow.
std::int64_t random_id() {
  std::random_device random;
  return 1 + static_cast<std::int64_t>((std::uint64_t{random()} << 16) ^ random());
}

}  // namespace

std::chrono::steady_clock::duration seconds_long(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

std::string node_key(std::string_view name, int node) { return fmt::format("{}/{}", name, node); }

Verdict end_of_job(int node, const std::string& why) {
  return {.kind = Verdict::Kind::stop,
          .first = RankReport{.node = node, .host = host_name(), .what = why, .final = true},
          .code = 1};
}

parallel::links::Address agents_address(const Options& options) {
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
      id_(random_id()),
      node_(options.node_rank.value_or(-1)),
      policy_(options, std::random_device()()),
      heard_(Clock::now()),
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
  const char* const bind = parallel::bootstrap::bind_address();
  const auto deadline = Clock::now() + kPortPatience;
  for (;;) {
    try {
      server_ = std::make_unique<parallel::bootstrap::TcpStoreServer>(
          parallel::bootstrap::TcpStoreServerOptions{
              .host = bind ? bind : address_.host, .port = address_.port, .token = token_});
      node_ = 0;
      return;
    } catch (const std::system_error& error) {
      const bool taken = error.code().value() == EADDRINUSE;
      // Without a node rank another agent of this machine may have been first.
      if (node_ < 0 && taken) return;
      if (!taken || Clock::now() > deadline)
        fail<DistributedError>(kOp, "node 0 cannot listen at {}: {}", address_.text(),
                               error.code().message());
    }
    std::this_thread::sleep_for(100ms);
  }
}

// ---- Called by the agent

void SeveralNodes::ready(int round) {
  const std::lock_guard lock(mutex_);
  exchange_ = Exchange{.wanted = round, .verdict = lost_};
}

std::optional<Round> SeveralNodes::round() {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(changed_.get(), &count, sizeof count);
  // A verdict without a round: it could not begin.
  if (!exchange_.round && lost_) throw DistributedError(lost_->first->what);
  return exchange_.round;
}

void SeveralNodes::succeeded() {
  const std::lock_guard lock(mutex_);
  exchange_.succeeded = true;
}

void SeveralNodes::failed(const std::vector<RankReport>& reports) {
  const std::lock_guard lock(mutex_);
  exchange_.failures = reports;
}

/// Only node 0 knows what the ranks were told. The cause may also be on another node.
bool SeveralNodes::lack_cause(const std::vector<RankReport>& reports) const {
  if (!server_) return false;
  const double age = lived();
  return is_consequence(cause_of(reports, *server_, age), *server_, age);
}

std::optional<Verdict> SeveralNodes::verdict() {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(changed_.get(), &count, sizeof count);
  return exchange_.verdict;
}

bool SeveralNodes::left() {
  const std::lock_guard lock(mutex_);
  return left_ || lost_;
}

// ---- The thread's

void SeveralNodes::talk() {
  std::string lost;
  try {
    int done = -1;
    while (!stop_) {
      const int wanted = exchange().wanted;
      if (wanted > done) {
        run_round(wanted);
        done = std::max(wanted, number_);
        continue;
      }
      try {
        if (store_) beat();
      } catch (const DistributedError& error) {
        disconnect(error.what());
      }
      pause();
    }
    const Exchange last = exchange();
    const bool restarting = last.verdict && last.verdict->kind == Verdict::Kind::restart;
    if (restarting || !(last.round || last.verdict)) end_job("the agent of node 0 was interrupted");
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

/// Takes part in one round, from being ready for it to its verdict, with and without contact.
void SeveralNodes::run_round(int wanted) {
  const auto deadline = Clock::now() + seconds_long(options_.rdzv_timeout);
  bool began = false;
  while (!stop_) {
    try {
      if (!store_) connect();
      if (!began) began = join_round(wanted, deadline);
      if (began) follow_round();
      return;
    } catch (const PermanentError&) {
      throw;
    } catch (const DistributedError& error) {
      disconnect(error.what());
    }
    if (!began && Clock::now() > deadline) give_up_contact();
    if (began) {
      if (const auto verdict = verdict_without_contact()) {
        publish([&](Exchange& exchange) { exchange.verdict = verdict; });
        return;
      }
    }
    pause(kRetry);
  }
}

/// Runs until the verdict on the round.
void SeveralNodes::follow_round() {
  for (;;) {
    std::optional<Verdict> verdict;
    if (job_ != last_.job) {
      verdict = leave_round(
          {.what = fmt::format("the agent of node 0, at {}, was started again", address_.text())});
    } else {
      beat();
      tell();
      verdict = look();
    }
    if (verdict) {
      publish([&](Exchange& exchange) { exchange.verdict = verdict; });
      if (verdict->kind != Verdict::Kind::restart) announce_end(verdict->kind);
      return;
    }
    if (stop_) return;
    pause();
  }
}

/// Reports the state of this node's workers.
void SeveralNodes::tell() {
  const Exchange now = exchange();
  for (; told_failures_ < now.failures.size(); ++told_failures_)
    report(place_, now.failures[told_failures_]);
  if (now.succeeded && !told_success_) {
    store_->set(key(node_key("done", node_)), "");
    told_success_ = true;
  }
}

void SeveralNodes::report(const Place& place, const RankReport& report) {
  const std::int64_t number = store_->add(key(place, "failures"), 1);
  store_->set(key(place, node_key("failure", static_cast<int>(number))), to_json(report));
}

/// Node 0 decides, the others read.
std::optional<Verdict> SeveralNodes::look() {
  if (node_ != 0) {
    if (!store_->check({key("verdict")})) return std::nullopt;
    return verdict_of(store_->get(key("verdict"), 1s));
  }
  std::optional<Verdict> verdict;
  if (const int first = failures(); first > 0) {
    verdict = settle(first);
  } else {
    std::vector<std::string> all;
    for (int node = 0; node < options_.nnodes; ++node) all.push_back(key(node_key("done", node)));
    if (store_->check(all)) verdict = Verdict{};
    if (!verdict) check_beats();
  }
  if (verdict) {
    if (verdict->kind == Verdict::Kind::restart) announce(number_ + 1);
    store_->set(key("verdict"), to_json(*verdict));
  }
  return verdict;
}

/// The number of the first failure, 0 if there is none. If its agent lost contact while reporting
/// it, only the number exists.
int SeveralNodes::failures() {
  const auto count = static_cast<int>(store_->add(key("failures"), 0));
  for (int i = 1; i <= count; ++i)
    if (store_->check({key(node_key("failure", i))})) return i;
  return 0;
}

/// Chooses among failures that occurred together. While those that are known are consequences, it
/// waits longer for their cause, whose process may take a while to end.
Verdict SeveralNodes::settle(int first) {
  const double age = lived();
  std::vector<RankReport> reports = {report_of(store_->get(key(node_key("failure", first)), 1s))};
  std::set<int> seen = {first};
  const auto began = Clock::now();
  bool settled = false;
  do {
    tell();
    const auto count = static_cast<int>(store_->add(key("failures"), 0));
    for (int i = 1; i <= count; ++i) {
      const std::string name = key(node_key("failure", i));
      if (seen.contains(i) || !store_->check({name})) continue;
      seen.insert(i);
      reports.push_back(report_of(store_->get(name, 1s)));
    }
    pause();
    const auto waited = Clock::now() - began;
    settled = waited >= kSettle && (waited >= kWaitForCause || !lack_cause(reports));
  } while (!settled && !stop_);
  RankReport chosen = cause_of(reports, *server_, lived());
  chosen.final = std::ranges::any_of(reports, &RankReport::final);
  const std::string silent = silent_ranks(*server_, chosen.rank, age);
  if (chosen.note.empty()) chosen.note = silent;
  return decide(policy_, chosen, std::chrono::duration<double>(age));
}

/// Checks for a silent agent, or a silent rank.
void SeveralNodes::check_beats() {
  if (options_.heartbeat_timeout <= 0) return;
  const auto now = Clock::now();
  const auto gap = now - std::exchange(beats_checked_, now);
  for (int node = 1; node < options_.nnodes; ++node) {
    Beat& beat = beats_[static_cast<std::size_t>(node)];
    // An agent that was stopped itself cannot judge the others' silence.
    if (gap > kPauseThreshold + seconds_long(2 * options_.monitor_interval)) beat.seen += gap;
    const std::int64_t count = store_->add(node_key("agents/beat", node), 0);
    if (count != beat.count) beat = {count, now};
    const double silent = std::chrono::duration<double>(now - beat.seen).count();
    if (silent > options_.heartbeat_timeout)
      return report(place_,
                    {.node = node,
                     .host = entries_[static_cast<std::size_t>(node)].host,
                     .what = fmt::format("its agent has not been heard of for {:.1f} s", silent)});
  }
  if (auto hung = hung_rank(*server_, options_.heartbeat_timeout, lived())) report(place_, *hung);
}

void SeveralNodes::beat() {
  store_->add(node_key("agents/beat", node_), 1);
  heard_ = Clock::now();
}

/// At the end of the job, node 0 serves until all others know of it; some may be cut off at the
/// moment.
void SeveralNodes::announce_end(Verdict::Kind kind) {
  const auto deadline =
      Clock::now() + (kind == Verdict::Kind::done ? seconds_long(options_.rdzv_timeout)
                                                  : Clock::duration(kFarewell));
  std::vector<std::string> others;
  for (int node = 1; node < options_.nnodes; ++node) others.push_back(node_key("agents/bye", node));
  for (bool said = false; !said && !stop_ && Clock::now() < deadline;) {
    try {
      if (!store_) connect();
      if (node_ != 0) store_->set(node_key("agents/bye", node_), "");
      said = node_ != 0 || store_->missing(others).empty();
    } catch (const DistributedError& error) {
      disconnect(error.what());
      // Node 0 waits for us, or knows already and has ended.
      if (node_ != 0 && why_lost_.find(std::strerror(ECONNREFUSED)) != std::string::npos) break;
    }
    if (!said) pause(store_ ? 10ms : kRetry);
  }
  publish([&](Exchange&) { left_ = true; });
}

// ---- Without contact

/// Whether the workers must be stopped because the state of the others is unknown.
std::optional<Verdict> SeveralNodes::verdict_without_contact() {
  const Exchange now = exchange();
  const double silent = without_contact();
  // Node 0 always reaches itself; and a node that has finished its work has nothing to restart.
  if (node_ == 0 || (now.succeeded && now.failures.empty())) {
    if (silent > options_.rdzv_timeout) give_up_contact();
    return std::nullopt;
  }
  const double limit = options_.heartbeat_timeout > 0
                           ? std::min(options_.heartbeat_timeout, options_.rdzv_timeout)
                           : options_.rdzv_timeout;
  const bool end = !now.failures.empty() && ends_job(now.failures.front());
  if (silent <= (end ? std::min(limit, kReconnectGrace) : limit)) return std::nullopt;
  return leave_round({.what = fmt::format("the agent of node 0, at {}, has not answered for {:.1f} "
                                          "s: {}",
                                          address_.text(), silent, why_lost_)});
}

bool SeveralNodes::ends_job(const RankReport& failure) const {
  return failure.final || !policy_.left(std::chrono::duration<double>(lived()));
}

Verdict SeveralNodes::leave_round(const RankReport& why) {
  const Exchange now = exchange();
  RankReport report = why;
  report.node = node_;
  report.host = host_name();
  // A rank that failed because others are missing is a consequence of the lost contact, unless it
  // ends the job.
  if (!now.failures.empty() && ends_job(now.failures.front())) {
    report = now.failures.front();
    report.note = why.what;
  }
  left_round_ = report;
  const Verdict verdict = decide(policy_, report, std::chrono::duration<double>(lived()));
  if (verdict.kind != Verdict::Kind::restart) publish([&](Exchange&) { left_ = true; });
  return verdict;
}

// ---- Small things

SeveralNodes::Exchange SeveralNodes::exchange() const {
  const std::lock_guard lock(mutex_);
  return exchange_;
}

void SeveralNodes::publish(const std::function<void(Exchange&)>& change) {
  const std::lock_guard lock(mutex_);
  change(exchange_);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(changed_.get(), &one, sizeof one);
}

bool SeveralNodes::pause() {
  return pause(std::chrono::ceil<milliseconds>(seconds_long(options_.monitor_interval)));
}

bool SeveralNodes::pause(milliseconds longest) {
  const auto until =
      Clock::now() + std::min<Clock::duration>(longest, seconds_long(options_.monitor_interval));
  while (!stop_ && Clock::now() < until)
    std::this_thread::sleep_for(std::min<Clock::duration>(until - Clock::now(), 50ms));
  return !stop_;
}

std::string SeveralNodes::key(const Place& place, std::string_view name) {
  return fmt::format("agents/{}/{}", place.round, name);
}

double SeveralNodes::without_contact() const {
  return std::chrono::duration<double>(Clock::now() - heard_).count();
}

double SeveralNodes::lived() const {
  return std::chrono::duration<double>(Clock::now() - round_began_).count();
}

std::unique_ptr<Nodes> make_nodes(const Options& options) {
  if (options.nnodes > 1) return std::make_unique<SeveralNodes>(options);
  return std::make_unique<SingleNode>(options);
}

}  // namespace ferrite::launcher
