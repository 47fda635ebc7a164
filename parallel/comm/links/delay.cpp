// A link slowed down artificially, to measure the cost of a network on one host.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/link.h"

namespace ferrite::parallel::links {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

double number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  if (!text || !*text) return 0;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  FERRITE_CHECK(*end == 0 && std::isfinite(value) && value >= 0, ValueError, "link",
                "expected {} to be a number, got \"{}\"", variable, text);
  return value;
}

class DelayedLink final : public Link {
 public:
  DelayedLink(std::unique_ptr<Link> link, Seconds delay, double bytes_per_second)
      : link_(std::move(link)),
        delay_(std::chrono::duration_cast<Clock::duration>(delay)),
        rate_(bytes_per_second) {}

  std::size_t try_send(std::span<const std::byte> bytes) override {
    if (rate_ == 0) return link_->try_send(bytes);
    const Clock::time_point now = Clock::now();
    if (now < free_) return 0;
    // In pieces of a tenth of a millisecond, so that they arrive gradually.
    const auto piece = static_cast<std::size_t>(std::max(1024.0, rate_ * 1e-4));
    const std::size_t sent = link_->try_send(bytes.first(std::min(piece, bytes.size())));
    // A sender that is late for a moment may catch up.
    const auto base = std::max(free_, now - std::chrono::milliseconds(1));
    free_ = base +
            std::chrono::duration_cast<Clock::duration>(Seconds(static_cast<double>(sent) / rate_));
    return sent;
  }

  std::span<const std::byte> received() override {
    const std::span<const std::byte> there = link_->received();
    note(there.size());
    return there.first(visible_);
  }

  void consume(std::size_t bytes) override {
    link_->consume(bytes);
    visible_ -= bytes;
    known_ -= bytes;
  }

  std::string_view kind() const override { return link_->kind(); }
  void close() override { link_->close(); }
  bool worth_looking(const Interest&) const override { return false; }

  bool ready(const Interest& interest) override {
    if (interest.send && Clock::now() >= free_ && link_->ready({.send = true})) return true;
    if (!interest.recv) return false;
    note(link_->received().size());
    return visible_ > interest.have;
  }

  PollRequest arm(const Interest& interest) override {
    const bool may_send = Clock::now() >= free_;
    PollRequest request = link_->arm({.send = interest.send && may_send,
                                      .recv = interest.recv,
                                      .have = interest.recv ? known_ : 0});
    if (interest.send && !may_send) request.until = std::min(request.until, free_);
    if (interest.recv && !coming_.empty())
      request.until = std::min(request.until, coming_.front().first);
    return request;
  }
  void disarm(const PollRequest& request) override { link_->disarm(request); }

 private:
  /// `size` bytes are in the link.
  void note(std::size_t size) {
    const Clock::time_point now = Clock::now();
    if (size > known_) coming_.emplace_back(now + delay_, size - known_);
    known_ = size;
    for (; !coming_.empty() && coming_.front().first <= now; coming_.pop_front())
      visible_ += coming_.front().second;
  }

  const std::unique_ptr<Link> link_;
  const Clock::duration delay_;
  const double rate_;
  Clock::time_point free_{};  // when the next byte may be sent
  std::size_t known_ = 0, visible_ = 0;
  std::deque<std::pair<Clock::time_point, std::size_t>> coming_;
};

}  // namespace

std::unique_ptr<Link> with_delay(std::unique_ptr<Link> link) {
  const Seconds delay(number_of("FERRITE_LINK_DELAY_US") * 1e-6);
  const double rate = number_of("FERRITE_LINK_GBPS") * 1e9;
  if (delay.count() == 0 && rate == 0) return link;
  return std::make_unique<DelayedLink>(std::move(link), delay, rate);
}

}  // namespace ferrite::parallel::links
