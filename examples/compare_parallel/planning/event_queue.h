// A discrete-event simulation: a clock that jumps from event to event, streams that do one thing
// after another, and links that transfers share. Times are in seconds, sizes in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <queue>
#include <vector>

namespace ferrite::planning {

/// Events in the order of their times, those of one time in the order in which they were given.
class EventQueue {
 public:
  using Action = std::function<void()>;

  double now() const { return now_; }
  /// Calls `action` at `time`. ValueError for a time that is past, infinite or NaN.
  void at(double time, Action action);
  void after(double delay, Action action) { at(now_ + delay, std::move(action)); }
  /// Until there are no more events.
  void run();
  std::size_t processed() const { return processed_; }

 private:
  struct Event {
    double time;
    std::uint64_t number;
    Action action;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.number > b.number;
    }
  };
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  double now_ = 0;
  std::uint64_t next_ = 0;
  std::size_t processed_ = 0;
};

/// What does one job after another, in the order of submit(): a device's compute stream, a
/// server's host. It can be slowed down meanwhile.
class ComputeStream {
 public:
  explicit ComputeStream(EventQueue& queue, double rate = 1) : queue_(queue), rate_(rate) {}
  ComputeStream(const ComputeStream&) = delete;
  ComputeStream& operator=(const ComputeStream&) = delete;

  /// `seconds` of work at rate 1; then `done`.
  void submit(double seconds, EventQueue::Action done = {});
  /// From now on, work at `rate`: 0.5 takes twice as long, 0 stands still.
  void set_rate(double rate);
  double rate() const { return rate_; }
  bool busy() const { return !jobs_.empty(); }
  /// So far.
  double busy_s() const;

 private:
  struct Job {
    double left;
    EventQueue::Action done;
  };
  void progress();
  void plan();
  void finish();

  EventQueue& queue_;
  double rate_;
  std::queue<Job> jobs_;
  double since_ = 0, busy_ = 0;
  std::uint64_t version_ = 0;
};

/// How transfers that meet on a link share it: all at the same speed, or one after another. The
/// last of them ends at the same time either way; in order costs O(1) a transfer.
enum class Sharing : std::uint8_t { fair, in_order };

/// One direction of a link. A transfer takes its bytes over the share of the bandwidth that it
/// gets, and arrives a latency later, during which the link is free for others.
class Link {
 public:
  /// ValueError unless the bandwidth is above 0 (infinity is allowed) and the latency 0 or more.
  Link(EventQueue& queue, double bandwidth, double latency, Sharing sharing = Sharing::fair);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void transfer(double bytes, EventQueue::Action arrived);
  std::size_t under_way() const { return transfers_.size(); }
  double bytes() const { return bytes_; }  ///< given so far
  double busy_s() const { return busy_; }  ///< so far, between events

 private:
  struct Transfer {
    double left;
    EventQueue::Action arrived;
  };
  double share() const;
  void progress();
  void plan();

  EventQueue& queue_;
  const double bandwidth_, latency_;
  const Sharing sharing_;
  std::list<Transfer> transfers_;
  double since_ = 0, busy_ = 0, bytes_ = 0;
  std::uint64_t version_ = 0;
};

}  // namespace ferrite::planning
