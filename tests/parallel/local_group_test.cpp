#include "ferrite/parallel/comm/local/local_group.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "ferrite/core/error.h"
#include "ferrite/core/stream.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/parallel/collectives.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::parallel;
using ferrite::test::check_collectives;
using ferrite::test::contains;

namespace {

constexpr LocalGroupOptions kPatient{.timeout = std::chrono::seconds(120)};

/// The error of each rank of a new group, "" if none.
std::vector<std::string> errors_of(int ranks, const LocalGroupOptions& options,
                                   const std::function<void(ProcessGroup&)>& f) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  auto groups = make_local_groups(ranks, options);
  std::vector<std::thread> threads;
  for (auto& group : groups)
    threads.emplace_back([&errors, &f, mine = std::move(group)]() mutable {
      try {
        f(*mine);
      } catch (const DistributedError& e) {
        errors[static_cast<std::size_t>(mine->rank())] = e.what();
      }
      mine = nullptr;
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace

TEST_CASE("local groups meet the requirements on all backends") {
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    run_ranks(
        ranks, [](ProcessGroup& group) { check_collectives(group, Device()); }, kPatient);
  }
}

TEST_CASE("local groups on virtual devices, each rank on its own") {
  run_ranks(
      3,
      [](ProcessGroup& group) {
        check_collectives(group, Device(DeviceType::cpu, group.rank()), {.large = 10'001});
      },
      kPatient);
}

TEST_CASE("ranks that do not call the same are told so") {
  for (const int ranks : {2, 3})
    run_ranks(
        ranks, [](ProcessGroup& group) { test::check_disagreements(group, Device()); }, kPatient);
  const auto errors = errors_of(3, kPatient, [](ProcessGroup& group) {
    group.all_reduce(zeros({group.rank() == 1 ? 4 : 3})).wait();
  });
  for (const std::string& error : errors)
    CHECK_MESSAGE((contains(error, "rank 1 called all_reduce(sum) of float32[4]") &&
                   contains(error, "float32[3]")),
                  error);
}

TEST_CASE("a transfer that both ends see differently fails on both") {
  const auto errors = errors_of(2, kPatient, [](ProcessGroup& group) {
    const Tensor t = zeros({group.rank() == 0 ? 3 : 2});
    (group.rank() == 0 ? group.send(t, 1) : group.recv(t, 0)).wait();
    group.barrier().wait();
  });
  CHECK_MESSAGE(contains(errors[0], "float32[2]"), errors[0]);
  CHECK_MESSAGE((contains(errors[1], "float32[3]") && contains(errors[1], "float32[2]")),
                errors[1]);
}

TEST_CASE("work starts after the present work of its stream, without blocking the caller") {
  run_ranks(
      2,
      [](ProcessGroup& group) {
        const Device device(DeviceType::cpu, group.rank());
        std::atomic<bool> open = false;
        const Tensor t = zeros({100}, {.device = device});
        current_stream(device).enqueue([&] { open.wait(false); });
        t.fill_(group.rank() + 1);
        const Work work = group.all_reduce(t);
        CHECK_FALSE(work.is_completed());
        open = true;
        open.notify_all();
        work.wait();
        CHECK(t.to_vector<int>() == std::vector<int>(100, 3));
      },
      kPatient);
}

TEST_CASE("a missing rank is named, with its last call") {
  std::atomic<int> done = 0;
  const auto errors = errors_of(3, {.timeout = std::chrono::seconds(2)}, [&](ProcessGroup& group) {
    group.barrier().wait();
    group.broadcast(zeros({2})).wait();
    if (group.rank() != 2) {
      try {
        group.all_reduce(zeros({5})).wait();
      } catch (...) {
        ++done, done.notify_all();
        throw;
      }
    } else {
      for (int n = done; n < 2; n = done) done.wait(n);
      CHECK(group.is_aborted());
      group.barrier().wait();
    }
  });
  for (const std::string& error : errors)
    CHECK_MESSAGE((contains(error, "all_reduce(sum) of float32[5] (number 3") &&
                   contains(error, "rank 2 has not arrived (its last call is broadcast number 2)")),
                  error);
}

TEST_CASE("groups with the longest time-outs") {
  run_ranks(2,
            [](ProcessGroup& group) {
              const Tensor t = ones({3});
              group.all_reduce(t).wait();
              group.new_group({0, 1}, Milliseconds::max())->all_reduce(t).wait();
              CHECK(t[0].item<float>() == 4);
            },
            {.timeout = Milliseconds::max()});
}

TEST_CASE("sub-groups use the job's rank numbers in messages") {
  const auto errors =
      errors_of(3, {.timeout = std::chrono::milliseconds(300)}, [&](ProcessGroup& group) {
        const auto pair = group.new_group({2, 1});
        if (!pair) return;
        if (group.rank() == 1) pair->recv(zeros({3}), 0).wait();
        while (!pair->is_aborted()) std::this_thread::yield();
        pair->barrier().wait();
      });
  for (const int r : {1, 2})
    CHECK_MESSAGE((contains(errors[std::size_t(r)], "group local/1) failed on rank 1") &&
                   contains(errors[std::size_t(r)], "rank 2 did not send it within 300 ms")),
                  errors[std::size_t(r)]);
}

TEST_CASE("a rank that has gone is named at once") {
  const auto errors = errors_of(3, kPatient, [&](ProcessGroup& group) {
    if (group.rank() != 1) group.all_reduce(zeros({5})).wait();
  });
  CHECK(errors[1].empty());
  for (const int r : {0, 2})
    CHECK_MESSAGE((contains(errors[std::size_t(r)], "rank 1 has left the group") &&
                   contains(errors[std::size_t(r)], "all_reduce")),
                  errors[std::size_t(r)]);
  const auto transfer = errors_of(2, kPatient, [&](ProcessGroup& group) {
    if (group.rank() == 0) group.recv(zeros({5}), 1).wait();
  });
  CHECK_MESSAGE(contains(transfer[0], "rank 1"), transfer[0]);
}

TEST_CASE("an exception of a rank ends all others and is rethrown") {
  std::atomic<int> told = 0;
  CHECK_THROWS_WITH_AS(run_ranks(
                           4,
                           [&](ProcessGroup& group) {
                             if (group.rank() == 2) {
                               barrier();
                               throw std::out_of_range("lost my way");
                             }
                             try {
                               barrier();
                               Tensor t = zeros({1 << 16});
                               for (;;) all_reduce(t);
                             } catch (const DistributedError& e) {
                               told += contains(e.what(), "rank 2 failed: lost my way");
                               throw;
                             }
                           },
                           kPatient),
                       "lost my way", std::out_of_range);
  CHECK(told == 3);
}

TEST_CASE("a rank lost at any moment leaves no other waiting") {
  for (int lost_after = 0; lost_after < 30; ++lost_after) {
    CAPTURE(lost_after);
    const int lost = lost_after % 3;
    std::atomic<int> told = 0;
    const auto rank = [&](ProcessGroup& group) {
      const int next = (group.rank() + 1) % 3, before = (group.rank() + 2) % 3;
      for (int i = 0;; ++i) {
        if (group.rank() == lost && i == lost_after) throw std::runtime_error("lost");
        const Tensor small = zeros({7}), large = zeros({30'000});
        const Tensor to = zeros({9'000}), from = zeros({9'000});
        const Work first = group.all_reduce(large), second = group.broadcast(small, i % 3);
        if (group.rank() == lost && i + 1 == lost_after && i % 2 == 0)
          throw std::runtime_error("lost");
        const Work sent = group.send(to, next);
        const Work received = group.recv(from, before);
        second.wait();
        received.wait();
        sent.wait();
        first.wait();
      }
    };
    const auto watched = [&](ProcessGroup& group) {
      try {
        rank(group);
      } catch (const DistributedError& e) {
        told += contains(e.what(), fmt::format("rank {}", lost));
        throw;
      }
    };
    CHECK_THROWS_WITH_AS(run_ranks(3, watched, kPatient), "lost", std::runtime_error);
    CHECK(told == 2);
  }
}

TEST_CASE("abort ends pending operations and refuses new ones, with the first reason") {
  const auto errors = errors_of(2, kPatient, [&](ProcessGroup& group) {
    if (group.rank() == 0) {
      const Work work = group.all_reduce(zeros({3}));
      const Work behind = group.broadcast(zeros({3}));
      const Work transfer = group.recv(zeros({3}), 1);
      group.abort("enough");
      group.abort("more than enough");
      for (const Work& w : {work, behind, transfer}) {
        CHECK_THROWS_WITH_AS(w.wait(), doctest::Contains("enough"), DistributedError);
        CHECK(w.is_completed());
        CHECK_FALSE(w.ran());
      }
    } else {
      while (!group.is_aborted()) std::this_thread::yield();
    }
    group.barrier().wait();
  });
  for (const std::string& error : errors)
    CHECK_MESSAGE((contains(error, "aborted: enough") && !contains(error, "more")), error);
}

TEST_CASE("operations without a wait end before their group is destroyed") {
  std::vector<Tensor> tensors = {full({100'000}, 1), full({100'000}, 2)};
  std::vector<Work> works(2);
  run_ranks(
      2,
      [&](ProcessGroup& group) {
        const auto r = static_cast<std::size_t>(group.rank());
        works[r] = group.all_reduce(tensors[r]);
      },
      kPatient);
  for (const Tensor& t : tensors) CHECK(t.to_vector<int>() == std::vector<int>(100'000, 3));
  for (const Work& work : works) work.wait();
}

TEST_CASE("each rank's thread has its own default group") {
  CHECK_FALSE(is_initialized());
  CHECK((get_rank() == 0 && get_world_size() == 1));
  CHECK_THROWS_WITH_AS(barrier(), doctest::Contains("init_process_group"), ValueError);
  run_ranks(
      3,
      [](ProcessGroup& group) {
        CHECK((get_rank() == group.rank() && get_world_size() == 3));
        CHECK(default_group().get() == &group);
        Tensor t = full({2}, get_rank());
        all_reduce(t, ReduceOp::max);
        CHECK(t.to_vector<int>() == std::vector<int>{2, 2});
        if (get_rank() == 0) send(t, 1);
        if (get_rank() == 1) recv(t, 0);
        {
          const DefaultGroupScope none(nullptr);
          CHECK_FALSE(is_initialized());
        }
        CHECK(is_initialized());
      },
      kPatient);
  CHECK_THROWS_AS(make_local_groups(0), ValueError);
  CHECK_THROWS_AS(make_local_groups(2, {.timeout = Milliseconds(0)}), ValueError);
}
