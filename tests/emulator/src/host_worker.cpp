#include "ferrite/tests/emulator/src/host_worker.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <thread>

#include "ferrite/tests/emulator/src/stream.h"

namespace emulator {

namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLater{20};

struct Item {
  StreamPtr stream;
  Ticket upto;
  SteadyClock::time_point when;
};

struct Worker {
  std::deque<Item> items;
  std::condition_variable wake;
  bool stop = false, running = false;
  std::thread thread;

  void run() {
    HeldLock lock(runtime_mutex);
    while (!stop) {
      const auto now = SteadyClock::now();
      const auto next = std::min_element(items.begin(), items.end(),
                                         [](auto& a, auto& b) { return a.when < b.when; });
      if (next == items.end()) {
        wake.wait(lock);
      } else if (next->when > now) {
        wake.wait_until(lock, next->when);
      } else {
        Item item = *next;
        items.erase(next);
        running = true;
        const bool done = !item.stream || run_as_worker(item.upto, lock);
        advance_all(lock);
        running = false;
        if (!done) {  // another thread runs it, or it waits for another one
          item.when = SteadyClock::now() + kLater;
          items.push_back(std::move(item));
        }
      }
    }
  }
};

/// Never destroyed: it is used until all statics of other code are gone.
Worker& worker() {
  static Worker& the = *new Worker;
  return the;
}

void stop_worker() {
  Worker& w = worker();
  {
    HeldLock lock(runtime_mutex);
    w.stop = true;
    w.wake.notify_all();
    // A host function that never returns must not keep the process from ending.
    if (w.running) {
      work_done.wait_for(lock, std::chrono::seconds(5), [&] { return !w.running; });
      if (w.running) return;
    }
  }
  w.thread.join();
}

void take(const StreamPtr& stream, SteadyClock::time_point when) {
  Worker& w = worker();
  for (Item& item : w.items) {
    if (item.stream != stream) continue;
    if (stream) item.upto = end_of(stream);
    item.when = std::min(item.when, when);
    w.wake.notify_all();
    return;
  }
  w.items.push_back({stream, stream ? end_of(stream) : Ticket(), when});
  if (!w.thread.joinable()) {
    w.thread = std::thread([&w] { w.run(); });
    std::atexit(stop_worker);
  }
  w.wake.notify_all();
}

}  // namespace

void host_worker_take(const StreamPtr& stream) { take(stream, SteadyClock::now()); }
void host_worker_take_later(const StreamPtr& stream) { take(stream, SteadyClock::now() + kLater); }

void host_worker_advance() { take(nullptr, SteadyClock::now()); }

}  // namespace emulator
