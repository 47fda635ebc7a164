#include "ferrite/parallel/comm/bootstrap/rendezvous_join.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"

namespace ferrite::parallel::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kJoin = "rendezvous";
constexpr std::string_view kComplete = "complete";
/// How long rank 0 keeps serving after a failure.
constexpr std::chrono::seconds kLinger{3};
/// How much longer than rank 0 the others wait.
constexpr milliseconds kPatience{500};

milliseconds left(links::Deadline deadline) {
  return std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds(0));
}

/// "rank 3", "ranks 1, 2, 5", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 40 others".
std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t most = 8;
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i) {
    out += (i ? ", " : "") + std::to_string(ranks[i]);
  }
  if (ranks.size() > most) out += fmt::format(" and {} others", ranks.size() - most);
  return out;
}

class Start {
 public:
  Start(std::shared_ptr<TcpStore> store, const JoinOptions& options, links::Deadline deadline,
        std::string prefix)
      : store_(std::move(store)),
        options_(options),
        place_(options.place),
        deadline_(deadline),
        prefix_(std::move(prefix)),
        all_(key("all")) {}

  /// All ranks get the same result or error.
  std::optional<Joined> run_and_report() {
    try {
      if (is_complete()) return std::nullopt;
      return run();
    } catch (const DistributedError&) {
      if (!store_->lost()) notify_late_ranks();
      throw;
    }
  }

 private:
  bool is_complete() {
    if (!store_->check({all_})) return false;
    const std::string outcome = store_->get(all_, milliseconds(0));
    if (outcome != kComplete) fail<DistributedError>(kJoin, "{}", outcome);
    return true;
  }

  Joined run() {
    say_who_we_are();
    agree_on_size();
    Joined out{prefix_, watch()};
    store_->set(key("in", place_.rank), "");
    if (store_->add(key("count"), 1) == place_.world_size) store_->set(all_, kComplete);
    const std::string outcome = wait_for_all();
    out.monitor->unwatch(std::string(kJoin));
    if (outcome != kComplete) fail<DistributedError>(kJoin, "{}", outcome);
    return out;
  }

  /// The store ends with rank 0: ranks that have not heard of the failure yet, or arrive later,
  /// would look for it in vain.
  void notify_late_ranks() {
    try {
      store_->set(key("told", place_.rank), "");
      if (place_.rank != 0 || options_.of_many_starts) return;
      const links::Deadline end = Clock::now() + kLinger;
      while (Clock::now() < end) {
        std::vector<int> untold = missing("told");
        if (Clock::now() >= deadline_) {
          for (const int rank : missing("who")) std::erase(untold, rank);
        }
        if (untold.empty()) return;
        std::this_thread::sleep_for(milliseconds(20));
      }
    } catch (const DistributedError&) {
      // The first error counts.
    }
  }

  std::string key(std::string_view name) const { return fmt::format("{}/{}", prefix_, name); }
  std::string key(std::string_view name, int rank) const {
    return fmt::format("{}/{}/{}", prefix_, name, rank);
  }

  /// Reports the error to all waiting ranks.
  [[noreturn]] void fail_for_all(const std::string& reason) {
    store_->set(all_, reason);
    // Some may be waiting for rank 0's value.
    if (!store_->check({key("size")})) store_->set(key("size"), "");
    fail<DistributedError>(kJoin, "{}", reason);
  }

  void say_who_we_are() {
    const std::string who = fmt::format("{}, process {}", links::host_name(), getpid());
    const std::int64_t others = store_->add(key("here", place_.rank), 1) - 1;
    if (others > 0) {
      const std::string first = store_->get(key("who", place_.rank), left(deadline_));
      fail_for_all(fmt::format("two processes say that they are rank {}: {}, and {}", place_.rank,
                               first, who));
    }
    store_->set(key("who", place_.rank), who);
  }

  /// Rank 0's value decides.
  void agree_on_size() {
    if (place_.rank == 0) store_->set(key("size"), std::to_string(place_.world_size));
    std::string text;
    try {
      text = store_->get(key("size"), left(deadline_));
    } catch (const DistributedError&) {
      if (store_->lost()) throw;
      wait_for_all();
      fail<DistributedError>(kJoin, "rank 0 has not arrived");
    }
    if (text.empty()) is_complete();  // throws
    int size = 0;
    std::from_chars(text.data(), text.data() + text.size(), size);
    if (size != place_.world_size) {
      fail_for_all(fmt::format(
          "the ranks do not agree on the number of processes: rank 0 says {}, rank {} says {}",
          size, place_.rank, place_.world_size));
    }
  }

  /// From now on the loss of a rank is detected.
  std::shared_ptr<TcpMonitor> watch() {
    auto monitor =
        std::make_shared<TcpMonitor>(store_->address(), options_.token,
                                     TcpMonitorOptions{prefix_, place_.rank, place_.world_size,
                                                       options_.timeout, options_.owner});
    monitor->watch(std::string(kJoin), [store = store_, all = all_](const std::string& reason) {
      try {
        if (!store->check({all})) store->set(all, reason);
      } catch (const Error&) {
        // Then the server was lost, and every rank waiting for it notices.
      }
    });
    return monitor;
  }

  std::string wait_for_all() {
    try {
      // The others wait for rank 0's verdict at the deadline.
      return store_->get(all_, left(deadline_) + (place_.rank == 0 ? milliseconds(0) : kPatience));
    } catch (const DistributedError&) {
      if (store_->lost()) throw;
    }
    const std::vector<int> absent = missing("who");
    if (absent.empty()) {
      // Rank 0 is needed to continue; the others may have been stopped where they are.
      fail_for_all(fmt::format("all ranks have joined, but {} did not continue in time",
                               ranks_text(missing("in"))));
    }
    fail_for_all(fmt::format(
        "{} of {} ranks have come in time; {} {} not. Have they been started, with the same "
        "MASTER_ADDR and MASTER_PORT (or file), and have they failed before they got here?",
        static_cast<std::size_t>(place_.world_size) - absent.size(), place_.world_size,
        ranks_text(absent), absent.size() == 1 ? "has" : "have"));
  }

  /// Ranks that have not set this key.
  std::vector<int> missing(std::string_view name) {
    std::vector<int> out;
    for (int rank = 0; rank < place_.world_size; ++rank) {
      if (!store_->check({key(name, rank)})) out.push_back(rank);
    }
    return out;
  }

  const std::shared_ptr<TcpStore> store_;
  const JoinOptions& options_;
  const Place place_;
  const links::Deadline deadline_;
  const std::string prefix_, all_;
};

}  // namespace

std::optional<Joined> join(const std::shared_ptr<TcpStore>& store, const JoinOptions& options,
                           links::Deadline deadline) {
  for (int again = 0;; ++again) {
    Start start(store, options, deadline, fmt::format("start/{}.{}", restart_count(), again));
    std::optional<Joined> joined = start.run_and_report();
    if (joined || !options.of_many_starts) return joined;
  }
}

}  // namespace ferrite::parallel::bootstrap
