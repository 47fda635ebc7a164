#include "ferrite/parallel/comm/local/hub.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/device_access.h"

namespace ferrite::parallel::local {

namespace {
constexpr int kKindShift = 56;
}

Hub::Hub(std::vector<int> names) : names_(std::move(names)), listeners_(names_.size()) {
  for (std::size_t i = 0; i < names_.size(); ++i) ranks_.push_back(std::make_unique<RankState>());
}

// ---- Synchronization

void Hub::begin(int rank, const Arguments& own, const links::Interrupt& interrupt) {
  RankState& mine = state(rank);
  mine.arguments[++mine.operations % 2] = own;
  const comm::Signature& call = own.signature;
  mine.called.store(
      (std::uint64_t{static_cast<std::uint8_t>(call.kind)} << kKindShift) | call.sequence,
      std::memory_order_relaxed);
  meet(rank, interrupt);
  const auto called = [&](int r) -> const comm::Signature& { return arguments(rank, r).signature; };
  for (int r = 1; r < size(); ++r) {
    if (called(r) == called(0)) [[likely]]
      continue;
    // The rank that differs from most others is named first.
    int like_first = 0;
    for (int s = 0; s < size(); ++s) like_first += called(s) == called(0);
    const int odd = 2 * like_first < size() ? 0 : r, other = odd == 0 ? r : 0;
    fail<DistributedError>(
        name(call.kind), "the ranks disagree: as number {}, rank {} called {}, and rank {} {}",
        call.sequence, names_[static_cast<std::size_t>(odd)], describe(called(odd), names_),
        names_[static_cast<std::size_t>(other)], describe(called(other), names_));
  }
}

void Hub::republish(int rank, const Place& source, const Place& out) {
  RankState& mine = state(rank);
  Arguments& current = mine.arguments[mine.operations % 2];
  current.source = source;
  current.out = out;
}

bool Hub::all_reached(std::uint64_t sync_point) {
  for (const auto& state : ranks_)
    if (state->sync_points.load(std::memory_order_seq_cst) < sync_point) return false;
  return true;
}

void Hub::meet(int rank, const links::Interrupt& interrupt) {
  RankState& mine = state(rank);
  mine.reads.store(false, std::memory_order_seq_cst);
  const std::uint64_t sync_point = mine.sync_points.load(std::memory_order_relaxed) + 1;
  // Sequentially consistent, like the sleeper's accesses: one of the two sees the other.
  mine.sync_points.store(sync_point, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    { const std::lock_guard lock(mutex_); }
    came_.notify_all();
  }
  comm::Backoff backoff;
  while (!all_reached(sync_point)) {
    if (!backoff.patient()) {
      backoff.pause();
      continue;
    }
    check(rank, sync_point, interrupt);
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const auto over = [&] {
      if (aborted_.load(std::memory_order_seq_cst) || all_reached(sync_point)) return true;
      for (const auto& state : ranks_)
        if (state->left.load(std::memory_order_seq_cst) && state->sync_points.load() < sync_point)
          return true;
      return false;
    };
    came_.wait_until(lock, interrupt.deadline, over);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    lock.unlock();
    if (!all_reached(sync_point)) check(rank, sync_point, interrupt);
  }
  // A rank that gives up waits for readers, which do not begin to read once they see the abort.
  mine.reads.store(true, std::memory_order_seq_cst);
  FERRITE_CHECK(!aborted_.load(std::memory_order_seq_cst), DistributedError, interrupt.op,
                "the group was aborted");
}

void Hub::end(int rank) { state(rank).reads.store(false, std::memory_order_seq_cst); }

void Hub::wait_for_readers(int rank) {
  // Before that, others may still begin to read.
  for (comm::Backoff backoff; !aborted_.load(std::memory_order_seq_cst);) backoff.pause();
  for (int r = 0; r < size(); ++r) {
    if (r == rank) continue;
    comm::Backoff backoff;
    while (state(r).reads.load(std::memory_order_seq_cst)) backoff.pause();
  }
}

std::string Hub::last_call(int rank) const {
  const std::uint64_t called = state(rank).called.load(std::memory_order_relaxed);
  if (called == 0) return "it has not called anything yet";
  return fmt::format("its last call is {} number {}", name(comm::Collective(called >> kKindShift)),
                     called & ((std::uint64_t{1} << kKindShift) - 1));
}

/// Throws if the wait has become pointless.
void Hub::check(int rank, std::uint64_t sync_point, const links::Interrupt& interrupt) {
  FERRITE_CHECK(!aborted_.load(std::memory_order_acquire) && !interrupt.aborted, DistributedError,
                interrupt.op, "the group was aborted");
  const bool late = std::chrono::steady_clock::now() >= interrupt.deadline;
  std::string who;
  for (int r = 0; r < size(); ++r) {
    const RankState& s = state(r);
    if (r == rank || s.sync_points.load() >= sync_point) continue;
    const int called = names_[static_cast<std::size_t>(r)];
    if (s.left)
      fail<DistributedError>(interrupt.op, "rank {} has left the group; {}", called, last_call(r));
    if (late)
      who += fmt::format("{}rank {} has not arrived ({})", who.empty() ? "" : ", ", called,
                         last_call(r));
  }
  FERRITE_CHECK(!late || who.empty(), DistributedError, interrupt.op, "the timeout has passed: {}",
                who);
}

// ---- The end

void Hub::leave(int rank) {
  state(rank).left = true;
  { const std::lock_guard lock(mutex_); }
  came_.notify_all();
}

void Hub::abort(int rank, const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (told_.exchange(true)) return;
    reason_ = reason;
  }
  {
    std::lock_guard lock(listeners_mutex_);
    for (int r = 0; r < size(); ++r)
      if (const auto& f = listeners_[static_cast<std::size_t>(r)]; f && r != rank) f(reason);
  }
  // Set last, so that every rank that sees it knows the reason.
  aborted_ = true;
  { const std::lock_guard lock(mutex_); }
  came_.notify_all();
}

std::string Hub::abort_reason() {
  std::lock_guard lock(mutex_);
  return reason_;
}

void Hub::listen(int rank, std::function<void(const std::string&)> f) {
  std::lock_guard lock(listeners_mutex_);
  listeners_[static_cast<std::size_t>(rank)] = std::move(f);
}

// ---- Shared by the ranks

links::LinkMesh& Hub::ring(int rank) {
  std::lock_guard lock(mutex_);
  if (ring_.empty()) ring_ = links::make_memory_links(size());
  return *ring_[static_cast<std::size_t>(rank)];
}

std::unique_ptr<links::LinkMesh> Hub::take_links(int rank) {
  std::lock_guard lock(mutex_);
  if (links_.empty()) links_ = links::make_memory_links(size());
  return std::move(links_[static_cast<std::size_t>(rank)]);
}

std::shared_ptr<Hub> Hub::subgroup(const std::string& name, const std::vector<int>& ranks) {
  std::lock_guard lock(mutex_);
  Subgroup& group = subgroups_[name];
  if (!group.hub) {
    std::vector<int> names;
    for (const int rank : ranks) names.push_back(names_[static_cast<std::size_t>(rank)]);
    group = {ranks, std::make_shared<Hub>(std::move(names)), 0};
  }
  FERRITE_CHECK(group.ranks == ranks, DistributedError, "new_group",
                "the ranks disagree on group {}: ranks {} in one call, {} in another", name,
                fmt::join(group.ranks, ", "), fmt::join(ranks, ", "));
  std::shared_ptr<Hub> hub = group.hub;
  if (++group.taken == ranks.size()) subgroups_.erase(name);
  return hub;
}

}  // namespace ferrite::parallel::local
