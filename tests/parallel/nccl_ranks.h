// Ranks of a group on NCCL that are threads, each with its own device.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/tests/support/cuda.h"

namespace ferrite::test {

inline Device device_of(int rank) { return Device(DeviceType::cuda, rank); }

class MemoryStore final : public parallel::Store {
 public:
  void set(const std::string& key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return values_.contains(key); }))
      fail<DistributedError>("store", "{} has not arrived", key);
    return values_[key];
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const std::lock_guard lock(mutex_);
    return numbers_[key] += amount;
  }
  bool check(const std::vector<std::string>& keys) override {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(keys, [&](const auto& key) { return values_.contains(key); });
  }
  bool erase(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return values_.erase(key) > 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::int64_t> numbers_;
};

/// State shared by the monitors of all ranks.
struct Board {
  std::mutex mutex;
  std::map<std::pair<int, std::string>, std::function<void(const std::string&)>> watchers;
  std::map<int, std::vector<std::string>> begun;
  std::map<int, std::uint64_t> ended;
};

class BoardMonitor final : public parallel::bootstrap::Monitor {
 public:
  BoardMonitor(int rank, std::shared_ptr<Board> board) : rank_(rank), board_(std::move(board)) {}
  void begin(const std::string&, std::uint64_t, std::string_view op) override {
    const std::lock_guard lock(board_->mutex);
    board_->begun[rank_].emplace_back(op);
  }
  void end(const std::string&, std::uint64_t sequence) override {
    const std::lock_guard lock(board_->mutex);
    board_->ended[rank_] = sequence;
  }
  void report_failure(const std::string& group, std::string_view reason) override {
    const std::lock_guard lock(board_->mutex);
    for (const auto& [key, watcher] : board_->watchers)
      if (key.first != rank_ && key.second == group) watcher(std::string(reason));
  }
  void watch(const std::string& group, std::function<void(const std::string&)> f) override {
    const std::lock_guard lock(board_->mutex);
    board_->watchers[{rank_, group}] = std::move(f);
  }
  void unwatch(const std::string& group) override {
    const std::lock_guard lock(board_->mutex);
    board_->watchers.erase({rank_, group});
  }
  std::string blame(const std::string&, std::uint64_t) override { return "rank 1 went fishing"; }

 private:
  const int rank_;
  const std::shared_ptr<Board> board_;
};

/// The ranks of a job, each a thread.
struct Job {
  std::shared_ptr<parallel::Store> store = std::make_shared<MemoryStore>();
  std::shared_ptr<Board> board = std::make_shared<Board>();

  parallel::GroupContext context(int rank, int size,
                                 parallel::Milliseconds timeout = std::chrono::seconds(100)) const {
    parallel::GroupContext c{.name = "test",
                             .rank = rank,
                             .size = size,
                             .job_ranks = {},
                             .timeout = timeout,
                             .store = store,
                             .monitor = std::make_shared<BoardMonitor>(rank, board),
                             .device = device_of(rank)};
    for (int r = 0; r < size; ++r) c.job_ranks.push_back(r);
    return c;
  }

  void run(int size, const std::function<void(parallel::ProcessGroup&)>& f,
           parallel::Milliseconds timeout = std::chrono::seconds(100)) {
    run_owners(
        size, [&](std::shared_ptr<parallel::ProcessGroup>& group) { f(*group); }, timeout);
  }

  /// `f` may let go of the group.
  void run_owners(int size, const std::function<void(std::shared_ptr<parallel::ProcessGroup>&)>& f,
                  parallel::Milliseconds timeout = std::chrono::seconds(100)) {
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::exception_ptr error;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        try {
          std::shared_ptr<parallel::ProcessGroup> group =
              parallel::make_nccl_group(context(rank, size, timeout));
          f(group);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!error) error = std::current_exception();
        }
      });
    for (std::thread& thread : threads) thread.join();
    // Those that a graph had captured are aborted by threads of their own.
    const auto began = std::chrono::steady_clock::now();
    while (live_nccl_communicators() > 0 &&
           std::chrono::steady_clock::now() - began < std::chrono::seconds(20))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(live_nccl_communicators() == 0);
    if (error) std::rethrow_exception(error);
  }
};

}  // namespace ferrite::test
