// Groups on NCCL with ranks that are threads, each with its own device, on the emulator and on
// hosts with several GPUs.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/cuda.h"
#include "ferrite/core/error.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/tests/parallel/collectives.h"
#include "ferrite/tests/parallel/nccl_ranks.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::parallel;
using namespace std::chrono_literals;
using test::device_of;
using test::Job;

namespace {

using Clock = std::chrono::steady_clock;

bool is_there() { return cuda::versions().nccl.starts_with("2."); }

}  // namespace

TEST_CASE("NCCL is loaded without a driver, and tells its version") {
  if (has_nccl()) CHECK(is_there());
  if (is_there()) return;
  MESSAGE("skipped: no NCCL");
  CHECK_THROWS_WITH_AS((void)make_nccl_group({}), doctest::Contains("nvidia-nccl"), Error);
}

TEST_CASE("without a device nccl suggests an alternative") {
  if (cuda::is_available() || !is_there()) return;
  CHECK_THROWS_WITH_AS((void)make_nccl_group({}), doctest::Contains("gloo"), DeviceError);
}

TEST_CASE("all collectives on NCCL") {
  for (const int ranks : {1, 2, 4}) {
    if (!test::can_use_nccl(ranks)) return;
    CAPTURE(ranks);
    Job().run(ranks, [](ProcessGroup& group) {
      test::check_collectives(group, device_of(group.rank()), {.large = 3'001, .send_recv = false});
    });
  }
}

TEST_CASE("three ranks sum, average in a ring and exchange tensors on NCCL") {
  if (!test::can_use_nccl(3)) return;
  Job().run(3, [](ProcessGroup& group) {
    const int rank = group.rank();
    const Device device = device_of(rank);
    for (const std::int64_t n : {1, 2, 1000}) {
      const Tensor t = full({n}, rank + 1, {.dtype = kFloat16, .device = device});
      group.all_reduce(t, ReduceOp::avg, AllReduceAlgorithm::ring).wait();
      CHECK(t.to_vector<double>() == std::vector<double>(static_cast<std::size_t>(n), 2));
    }
    // Around the ring, with the first rank sending first and the others receiving first.
    const Tensor mine = full({500}, rank, {.device = device});
    const Tensor got = zeros({500}, {.device = device});
    if (rank == 0) group.send(mine, 1).wait();
    group.recv(got, (rank + 2) % 3).wait();
    if (rank != 0) group.send(mine, (rank + 1) % 3).wait();
    CHECK(got.to_vector<int>() == std::vector<int>(500, (rank + 2) % 3));
  });
}

TEST_CASE("large rings go in pieces") {
  if (!test::can_use_nccl(3)) return;
  for (const DType dtype : {kFloat32, kBFloat16}) {
    const std::uint64_t before = test::nccl_groups();
    Job().run(3, [&](ProcessGroup& group) {
      const std::int64_t n = (std::int64_t{3} << 20) + 7;  // two pieces per rank
      const Tensor t =
          full({n}, group.rank() + 1, {.dtype = dtype, .device = device_of(group.rank())});
      group.all_reduce(t, ReduceOp::sum, AllReduceAlgorithm::ring).wait();
      const std::vector<float> values = t.to_vector<float>();
      CHECK(std::ranges::count(values, 6.0f) == n);
    });
    // Each piece's two steps, and the exchange of the sums.
    if (test::is_emulated()) CHECK(test::nccl_groups() - before == 3 * (2 * 2 + 1));
  }
}

TEST_CASE("a small operation is one group of calls for NCCL, and a ring one more than its steps") {
  if (!test::can_use_nccl(3) || !test::is_emulated()) return;
  const auto groups = [](AllReduceAlgorithm algorithm) {
    const std::uint64_t before = test::nccl_groups();
    Job().run(3, [&](ProcessGroup& group) {
      const Tensor t = ones({1000}, {.device = device_of(group.rank())});
      group.all_reduce(t, ReduceOp::sum, algorithm).wait();
    });
    return (test::nccl_groups() - before) / 3;
  };
  CHECK(groups(AllReduceAlgorithm::automatic) == 1);
  CHECK(groups(AllReduceAlgorithm::ring) == 3);
}

TEST_CASE("none of many groups waits for another one's ranks") {
  if (!test::can_use_nccl(2)) return;
  Job().run(2, [](ProcessGroup& group) {
    const Device device = device_of(group.rank());
    std::vector<std::shared_ptr<ProcessGroup>> groups;
    for (int i = 0; i < 9; ++i) groups.push_back(group.new_group({0, 1}));
    for (std::size_t i = 1; i < groups.size(); ++i) {
      CAPTURE(i);
      const Tensor sum = ones({100}, {.device = device});
      const Tensor sent = full({100}, group.rank(), {.device = device});
      std::vector<Work> works;
      const auto reduce = [&] { works.push_back(groups[0]->all_reduce(sum)); };
      if (group.rank() == 0) reduce();
      works.push_back(group.rank() == 0 ? groups[i]->send(sent, 1) : groups[i]->recv(sent, 0));
      if (group.rank() == 1) reduce();
      for (Work& work : works) work.wait();
      CHECK(sum.to_vector<int>() == std::vector<int>(100, 2));
      CHECK(sent.to_vector<int>() == std::vector<int>(100, 0));
    }
  });
}

TEST_CASE("tensors of other devices, and of types that NCCL cannot send, are refused") {
  if (!test::can_use_nccl(2)) return;
  Job().run(2, [](ProcessGroup& group) {
    for (const auto algorithm : {AllReduceAlgorithm::automatic, AllReduceAlgorithm::ring}) {
      const TensorOptions options{.dtype = kInt16, .device = device_of(group.rank())};
      CHECK_THROWS_AS((void)group.all_reduce(ones({9}, options), ReduceOp::sum, algorithm),
                      DTypeError);
      const Tensor sum = ones({9}, {.device = device_of(group.rank())});
      group.all_reduce(sum, ReduceOp::sum, algorithm).wait();
      CHECK(sum.to_vector<int>() == std::vector<int>(9, 2));
    }
    CHECK_THROWS_WITH_AS((void)group.all_reduce(zeros({2})), doctest::Contains("the device of"),
                         DeviceError);
    const Tensor other = zeros({2}, {.device = device_of(1 - group.rank())});
    CHECK_THROWS_AS((void)group.all_reduce(other), DeviceError);
    CHECK_FALSE(group.is_aborted());
    group.barrier().wait();
  });
}

TEST_CASE("a rank that never comes to an NCCL group is named, wherever it is missed") {
  if (!test::can_use_nccl(2)) return;
  for (const int rank : {0, 1}) {
    Job job;
    const auto began = Clock::now();
    const std::string said = test::message_of<DistributedError>(
        [&] { (void)make_nccl_group(job.context(rank, 2, 700ms)); });
    CHECK_MESSAGE(said.find(rank == 0 ? "rank 1 has not arrived" : "nccl/id") != std::string::npos,
                  said);
    CHECK(Clock::now() - began < 60s);
  }
  CHECK(test::live_nccl_communicators() == 0);
}

TEST_CASE("two ranks on one GPU are told of NCCL_HOSTID") {
  if (!test::can_use_nccl(1)) return;
  Job job;
  std::vector<std::thread> threads;
  std::vector<std::string> said(2);
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      GroupContext context = job.context(rank, 2, 20s);
      context.device = Device("cuda:0");
      said[static_cast<std::size_t>(rank)] =
          test::message_of<DistributedError>([&] { (void)make_nccl_group(context); });
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : said) {
    CHECK_MESSAGE(text.find("ranks 0 and 1 both have GPU") != std::string::npos, text);
    CHECK_MESSAGE(text.find("NCCL_HOSTID") != std::string::npos, text);
  }
}

TEST_CASE("the devices that ranks are given") {
  if (!test::can_use_nccl(1)) return;
  Job job;
  GroupContext context = job.context(0, 1);
  context.device = Device("cpu");
  CHECK_THROWS_WITH_AS((void)make_nccl_group(context), doctest::Contains("cuda:0"), DeviceError);
  context.device.reset();  // the local rank's
  CHECK(make_nccl_group(context)->size() == 1);
}

TEST_CASE("an operation that another rank does not call ends in time, on both") {
  if (!test::can_use_nccl(2)) return;
  Job job;
  job.run(
      2,
      [&](ProcessGroup& group) {
        const Device device = device_of(group.rank());
        const Tensor t = ones({5}, {.device = device});
        group.all_reduce(t).synchronize();
        const auto began = Clock::now();
        if (group.rank() == 1) {
          // Notified by the other one.
          while (!group.is_aborted() && Clock::now() - began < 60s)
            std::this_thread::sleep_for(1ms);
          CHECK(group.is_aborted());
        } else {
          const Work work = group.all_reduce(t);
          const std::string said = test::message_of<DistributedError>([&] { work.synchronize(); });
          CHECK_MESSAGE(said.find("all_reduce(sum) of float32[5], number 2") != std::string::npos,
                        said);
          CHECK_MESSAGE(said.find("rank 1 went fishing") != std::string::npos, said);
          CHECK_THROWS_AS(work.wait(), DistributedError);
          CHECK(work.is_completed());
          CHECK_FALSE(work.ran());
        }
        CHECK(Clock::now() - began < 60s);
        const std::string later =
            test::message_of<DistributedError>([&] { (void)group.barrier(); });
        CHECK_MESSAGE(later.find("went fishing") != std::string::npos, later);
        // The device is still usable.
        current_stream(device).synchronize();
        CHECK(ones({3}, {.device = device}).to_vector<int>() == std::vector<int>(3, 1));
      },
      700ms);
  CHECK(job.board->begun[0].back() == "all_reduce(sum) of float32[5]");
  CHECK(job.board->ended[0] == 1);
}

TEST_CASE("asynchronous NCCL errors end pending operations") {
  if (!test::can_use_nccl(2) || !test::is_emulated()) return;
  Job().run(2, [](ProcessGroup& group) {
    const Device device = device_of(group.rank());
    const Tensor t = ones({5}, {.device = device});
    if (group.rank() == 0) {
      const Work work = group.all_reduce(t);
      test::plant_nccl_error(0);
      const std::string said = test::message_of<DistributedError>([&] { work.synchronize(); });
      CHECK_MESSAGE(said.find("remote process exited") != std::string::npos, said);
      CHECK_MESSAGE(said.find("all_reduce") != std::string::npos, said);
    } else {
      const auto began = Clock::now();
      while (!group.is_aborted() && Clock::now() - began < 60s) std::this_thread::sleep_for(1ms);
    }
    CHECK(group.is_aborted());
  });
}

TEST_CASE("calls that NCCL refuses abort the group") {
  if (!test::can_use_nccl(1) || !test::is_emulated()) return;
  Job().run(1, [](ProcessGroup& group) {
    test::fail_next_call("ncclBroadcast", test::Failure::not_supported);
    const std::string said = test::message_of<DistributedError>(
        [&] { (void)group.broadcast(ones({2}, {.device = device_of(0)})); });
    CHECK_MESSAGE(said.find("unhandled cuda error") != std::string::npos, said);
    CHECK_MESSAGE(said.find("broadcast from rank 0 of float32[2]") != std::string::npos, said);
    CHECK(group.is_aborted());
  });
}

TEST_CASE("operations pending when their group is destroyed have failed") {
  if (!test::can_use_nccl(2)) return;
  Work good, cut_short;
  Job().run(
      2,
      [&](ProcessGroup& group) {
        const Tensor t = ones({3}, {.device = device_of(group.rank())});
        const Work all = group.all_reduce(t);
        all.synchronize();
        if (group.rank() != 0) return;
        good = all;
        cut_short = group.all_reduce(t);  // which the other rank never calls
      },
      1s);
  good.synchronize();
  const std::string said = test::message_of<DistributedError>([&] { cut_short.synchronize(); });
  CHECK_MESSAGE(said.find("under way") != std::string::npos, said);
}

TEST_CASE("abort ends operations that wait on the device") {
  if (!test::can_use_nccl(2)) return;
  std::atomic<bool> other_has_it{false};
  Job().run(2, [&](ProcessGroup& group) {
    if (group.rank() == 1) {
      other_has_it = true;
      const auto began = Clock::now();
      while (!group.is_aborted() && Clock::now() - began < 60s) std::this_thread::sleep_for(1ms);
      return;
    }
    const Device device = device_of(0);
    const Tensor t = ones({5}, {.device = device});
    const Work work = group.all_reduce(t);
    work.wait();
    CHECK_FALSE(work.is_completed());
    // An abort during the construction is tested elsewhere.
    while (!other_has_it) std::this_thread::sleep_for(1ms);
    group.abort("enough");
    group.abort("too late");
    const std::string said = test::message_of<DistributedError>([&] { work.synchronize(); });
    CHECK_MESSAGE(said.find("enough") != std::string::npos, said);
    current_stream(device).synchronize();
  });
}

TEST_CASE("operations are ordered with the work of other streams, and the host does not wait") {
  if (!test::can_use_nccl(2)) return;
  const test::DeferredStreams deferred;
  Job().run(2, [](ProcessGroup& group) {
    const Device device = device_of(group.rank());
    const Tensor warm = ones({4096}, {.device = device});
    group.all_reduce(warm).synchronize();
    synchronize(device);
    {
      const cuda::SyncDebugMode before = cuda::sync_debug_mode();
      const Tensor t = zeros({4096}, {.device = device});
      t.add_(group.rank() + 1);
      const Work first = group.all_reduce(t);
      // Memory that is released before the operation begins.
      { const Work dropped = group.all_reduce(full({4096}, 7, {.device = device})); }
      const Tensor other = full({4096}, -1, {.device = device});
      first.wait();
      t.mul_(2);
      const Work second = group.all_reduce(t);
      second.wait();
      t.add_(1);
      CHECK(cuda::sync_debug_mode() == before);
      CHECK(t.to_vector<int>() == std::vector<int>(4096, 13));
      CHECK(other.to_vector<int>() == std::vector<int>(4096, -1));
      if (const auto times = first.ran()) {
        const auto later = second.ran();
        CHECK(times->first <= times->second);
        CHECK((later && times->second <= later->second));
      }
    }
  });
}

TEST_CASE("a step that reduces waits for nothing in the host") {
  if (!test::can_use_nccl(2) || !test::is_emulated()) return;
  std::atomic<std::uint64_t> waits{0};
  Job().run(2, [&](ProcessGroup& group) {
    const Tensor t = ones({100}, {.device = device_of(group.rank())});
    group.all_reduce(t).synchronize();
    group.barrier().wait();
    const auto before = test::host_waits().synchronizations;
    for (int i = 0; i < 5; ++i) {
      group.all_reduce(t, ReduceOp::max).wait();
      t.add_(1);
    }
    waits += test::host_waits().synchronizations - before;
    group.barrier().wait();
    CHECK(t.to_vector<int>() == std::vector<int>(100, 7));
  });
  CHECK(waits == 0);
}
