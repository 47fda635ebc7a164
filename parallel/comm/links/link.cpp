#include "ferrite/parallel/comm/links/link.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "ferrite/core/error.h"

namespace ferrite::parallel::links {

using Clock = std::chrono::steady_clock;

namespace {

// A rank with an active neighbour has a short wait; one that shares its core with the neighbour
// blocks it while spinning, so it sleeps soon. Yielding instead would cost a time slice of other
// processes on a busy machine.
constexpr auto kSpin = std::chrono::microseconds(10);
// Latency of noticing a flag set by another thread that closes no link.
constexpr auto kNap = std::chrono::milliseconds(50);

bool any_ready(std::span<const Wait> waits) {
  return std::any_of(waits.begin(), waits.end(),
                     [](const Wait& wait) { return wait.link->ready(wait.interest); });
}

bool comes_true_soon(std::span<const Wait> waits) {
  if (std::any_of(waits.begin(), waits.end(),
                  [](const Wait& wait) { return !wait.link->worth_looking(wait.interest); }))
    return any_ready(waits);
  const Clock::time_point start = Clock::now();
  while (true) {
    for (int i = 0; i < 16; ++i) {
      if (any_ready(waits)) return true;
      relax();
    }
    const auto waited = Clock::now() - start;
    if (waited > kSpin) return false;
  }
}

void sleep(std::span<pollfd> fds, Clock::time_point until) {
  const auto left = std::max(until - Clock::now(), Clock::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  timespec time{};
  time.tv_sec = seconds.count();
  time.tv_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(left - seconds).count();
  if (ppoll(fds.data(), fds.size(), &time, nullptr) <= 0)  // timeout, or a signal arrived
    for (pollfd& fd : fds) fd.revents = 0;
}

/// Requests wake-ups while it lives.
class Armed {
 public:
  explicit Armed(std::span<const Wait> waits) : waits_(waits) {
    requests_.reserve(waits.size());
    for (const Wait& wait : waits) requests_.push_back(wait.link->arm(wait.interest));
  }
  ~Armed() {
    for (std::size_t i = 0; i < requests_.size(); ++i) waits_[i].link->disarm(requests_[i]);
  }
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;

  void sleep_until(Clock::time_point time) {
    std::vector<pollfd> fds;
    fds.reserve(2 * requests_.size());
    for (const Link::PollRequest& one : requests_) {
      fds.insert(fds.end(), one.fds.begin(), one.fds.end());
      time = std::min(time, one.until);
    }
    sleep(fds, time);
    for (std::size_t i = 0; i < fds.size(); ++i) requests_[i / 2].fds[i % 2] = fds[i];
  }

 private:
  std::span<const Wait> waits_;
  std::vector<Link::PollRequest> requests_;
};

}  // namespace

std::size_t Link::try_recv(std::span<std::byte> bytes) {
  const std::span<const std::byte> there = received();
  const std::size_t n = std::min(there.size(), bytes.size());
  if (n == 0) return 0;
  std::memcpy(bytes.data(), there.data(), n);
  consume(n);
  return n;
}

void Interrupt::check() const {
  FERRITE_CHECK(!aborted.load(std::memory_order_acquire), DistributedError, op,
                "was aborted while it was under way");
  FERRITE_CHECK(Clock::now() < deadline, DistributedError, op,
                "did not end in time: another rank has not taken part in it, or is too slow");
}

void wait_any(std::span<const Wait> waits, const Interrupt& interrupt) {
  interrupt.check();
  if (comes_true_soon(waits)) return;
  Armed armed(waits);
  if (any_ready(waits)) return;
  armed.sleep_until(std::min(interrupt.deadline, Clock::now() + kNap));
}

void wait_neighbours(Link& from, bool recv, std::size_t have, Link& to, bool send,
                     const Interrupt& interrupt) {
  std::array<Wait, 2> waits;
  std::size_t count = 0;
  if (recv) waits[count++] = {&from, {.recv = true, .have = have}};
  if (send && recv && &from == &to)
    waits[0].interest.send = true;
  else if (send)
    waits[count++] = {&to, {.send = true}};
  wait_any({waits.data(), count}, interrupt);
}

void send(Link& link, std::span<const std::byte> bytes, const Interrupt& interrupt) {
  while (!bytes.empty()) {
    const std::size_t sent = link.try_send(bytes);
    bytes = bytes.subspan(sent);
    if (bytes.empty()) return;
    if (sent > 0) {
      interrupt.check();
      continue;
    }
    const std::array<Wait, 1> waits{{{&link, {.send = true}}}};
    wait_any(waits, interrupt);
  }
}

void recv(Link& link, std::span<std::byte> bytes, const Interrupt& interrupt) {
  while (!bytes.empty()) {
    const std::size_t got = link.try_recv(bytes);
    bytes = bytes.subspan(got);
    if (bytes.empty()) return;
    if (got > 0) {
      interrupt.check();
      continue;
    }
    const std::array<Wait, 1> waits{{{&link, {.recv = true}}}};
    wait_any(waits, interrupt);
  }
}

}  // namespace ferrite::parallel::links
