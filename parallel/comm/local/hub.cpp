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
  for (std::size_t i = 0; i < names_.size(); ++i) seats_.push_back(std::make_unique<Seat>());
}

// ---- Meetings

void Hub::begin(int rank, const Brought& bring, const links::Interrupt& interrupt) {
  Seat& mine = seat(rank);
  mine.brought[++mine.operations % 2] = bring;
  const comm::Signature& call = bring.signature;
  mine.called.store(
      (std::uint64_t{static_cast<std::uint8_t>(call.kind)} << kKindShift) | call.sequence,
      std::memory_order_relaxed);
  meet(rank, interrupt);
  const auto called = [&](int r) -> const comm::Signature& { return brought(rank, r).signature; };
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

void Hub::bring_instead(int rank, const Place& source, const Place& out) {
  Seat& mine = seat(rank);
  Brought& bring = mine.brought[mine.operations % 2];
  bring.source = source;
  bring.out = out;
}

bool Hub::all_came(std::uint64_t meeting) {
  for (const auto& seat : seats_)
    if (seat->meetings.load(std::memory_order_seq_cst) < meeting) return false;
  return true;
}

void Hub::meet(int rank, const links::Interrupt& interrupt) {
  Seat& mine = seat(rank);
  mine.reads.store(false, std::memory_order_seq_cst);
  const std::uint64_t meeting = mine.meetings.load(std::memory_order_relaxed) + 1;
  // Sequentially consistent, like the sleeper's accesses: one of the two sees the other.
  mine.meetings.store(meeting, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    { const std::lock_guard lock(mutex_); }
    came_.notify_all();
  }
  comm::Backoff backoff;
  while (!all_came(meeting)) {
    if (!backoff.patient()) {
      backoff.pause();
      continue;
    }
    check(rank, meeting, interrupt);
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const auto over = [&] {
      if (aborted_.load(std::memory_order_seq_cst) || all_came(meeting)) return true;
      for (const auto& seat : seats_)
        if (seat->left.load(std::memory_order_seq_cst) && seat->meetings.load() < meeting)
          return true;
      return false;
    };
    came_.wait_until(lock, interrupt.deadline, over);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    lock.unlock();
    if (!all_came(meeting)) check(rank, meeting, interrupt);
  }
  // A rank that gives up waits for readers, which do not begin to read once they see the abort.
  mine.reads.store(true, std::memory_order_seq_cst);
  FERRITE_CHECK(!aborted_.load(std::memory_order_seq_cst), DistributedError, interrupt.op,
                "the group was aborted");
}

void Hub::end(int rank) { seat(rank).reads.store(false, std::memory_order_seq_cst); }

void Hub::wait_for_readers(int rank) {
  // Before that, others may still begin to read.
  for (comm::Backoff backoff; !aborted_.load(std::memory_order_seq_cst);) backoff.pause();
  for (int r = 0; r < size(); ++r) {
    if (r == rank) continue;
    comm::Backoff backoff;
    while (seat(r).reads.load(std::memory_order_seq_cst)) backoff.pause();
  }
}

std::string Hub::last_call(int rank) const {
  const std::uint64_t called = seat(rank).called.load(std::memory_order_relaxed);
  if (called == 0) return "it has not called anything yet";
  return fmt::format("its last call is {} number {}", name(comm::Collective(called >> kKindShift)),
                     called & ((std::uint64_t{1} << kKindShift) - 1));
}

/// Throws if the wait has become pointless.
void Hub::check(int rank, std::uint64_t meeting, const links::Interrupt& interrupt) {
  FERRITE_CHECK(!aborted_.load(std::memory_order_acquire) && !interrupt.aborted, DistributedError,
                interrupt.op, "the group was aborted");
  const bool late = std::chrono::steady_clock::now() >= interrupt.deadline;
  std::string who;
  for (int r = 0; r < size(); ++r) {
    const Seat& s = seat(r);
    if (r == rank || s.meetings.load() >= meeting) continue;
    const int called = names_[static_cast<std::size_t>(r)];
    if (s.left)
      fail<DistributedError>(interrupt.op, "rank {} has left the group; {}", called, last_call(r));
    if (late)
      who +=
          fmt::format("{}rank {} has not come ({})", who.empty() ? "" : ", ", called, last_call(r));
  }
  FERRITE_CHECK(!late || who.empty(), DistributedError, interrupt.op, "the timeout has passed: {}",
                who);
}

// ---- The end

void Hub::leave(int rank) {
  seat(rank).left = true;
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
