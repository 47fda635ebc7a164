#include "ferrite/parallel/comm/process_group.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/host_group.h"
#include "ferrite/parallel/comm/local/local_group.h"

using namespace ferrite;
using namespace ferrite::parallel;
using doctest::Contains;

namespace {

/// Records the reports it receives, and returns the answers it was given.
class RecordingMonitor final : public bootstrap::Monitor {
 public:
  void begin(const std::string& group, std::uint64_t sequence, std::string_view op) override {
    add(fmt::format("begin {} {} {}", group, sequence, op));
  }
  void end(const std::string& group, std::uint64_t sequence) override {
    add(fmt::format("end {} {}", group, sequence));
  }
  void report_failure(const std::string& group, std::string_view) override {
    add("failure of " + group);
  }
  void watch(const std::string& group, std::function<void(const std::string&)> f) override {
    add("watch " + group);
    tell = std::move(f);
  }
  void unwatch(const std::string& group) override { add("unwatch " + group); }
  std::string blame(const std::string&, std::uint64_t) override { return "it was the gardener"; }

  void add(std::string line) {
    std::lock_guard lock(mutex);
    lines.push_back(std::move(line));
  }
  std::mutex mutex;
  std::vector<std::string> lines;
  std::function<void(const std::string&)> tell;
};

GroupContext context_of(Milliseconds timeout = std::chrono::seconds(60)) {
  GroupContext context;
  context.name = "test";
  context.rank = 1;
  context.size = 3;
  context.job_ranks = {4, 5, 6};
  context.timeout = timeout;
  return context;
}

/// A group whose collectives are a function of the test.
class TestGroup final : public HostGroup {
 public:
  using Function = std::function<void(const comm::HostCall&)>;
  TestGroup(const GroupContext& context, Function f, comm::Waiters waiters = comm::Waiters::wait)
      : HostGroup("test", context, nullptr, {.waiters = waiters}), f_(std::move(f)) {
    start_watching();
  }
  ~TestGroup() override { stop(); }

  std::atomic<bool> cancelled = false;

 private:
  void run(const comm::HostCall& call) override { f_(call); }
  void cancel() override {
    cancelled = true;
    cancelled.notify_all();
  }
  std::shared_ptr<ProcessGroup> do_new_group(const std::vector<int>&, int, const std::string&,
                                             Milliseconds) override {
    return nullptr;
  }
  const Function f_;
};

}  // namespace

TEST_CASE("calls describe themselves") {
  const Tensor t = zeros({2, 3}, {.dtype = kBFloat16}), none = zeros({0}, {.dtype = kUInt8});
  CHECK(describe(comm::Call{.kind = comm::Collective::all_reduce, .op = ReduceOp::avg, .out = t}) ==
        "all_reduce(avg) of bfloat16[2, 3]");
  CHECK(describe(comm::Call{.kind = comm::Collective::broadcast, .peer = 2, .out = none}) ==
        "broadcast from rank 2 of uint8[0]");
  CHECK(describe(comm::Call{
            .kind = comm::Collective::reduce, .op = ReduceOp::max, .peer = 1, .out = t}) ==
        "reduce(max) to rank 1 of bfloat16[2, 3]");
  CHECK(describe(comm::Call{.kind = comm::Collective::all_gather, .out = none, .in = t}) ==
        "all_gather of bfloat16[2, 3]");
  CHECK(describe(comm::Call{.kind = comm::Collective::send, .peer = 3, .in = full({}, 1.0)}) ==
        "send to rank 3 of float32[]");
  const std::vector<int> names = {4, 7};  // of a sub-group
  CHECK(describe(comm::Call{.kind = comm::Collective::broadcast, .peer = 1, .out = none}, names) ==
        "broadcast from rank 7 of uint8[0]");
  CHECK(describe(comm::Signature{.kind = comm::Collective::recv, .peer = -5}, names) ==
        "recv from rank -5 of float32[]");
  CHECK(describe(comm::Call{.kind = comm::Collective::barrier}) == "barrier");
  const Tensor nhwc = empty({2, 3, 4, 5}, {.memory_format = kChannelsLast});
  CHECK(describe(comm::Call{.kind = comm::Collective::all_reduce, .out = nhwc}) ==
        "all_reduce(sum) of float32[2, 3, 4, 5] in channels-last order");
}

TEST_CASE("operations run one at a time, in order, and tell the monitor") {
  for (const comm::Waiters waiters : {comm::Waiters::wait, comm::Waiters::help}) {
    auto context = context_of();
    const auto monitor = std::make_shared<RecordingMonitor>();
    context.monitor = monitor;
    std::vector<std::uint64_t> order;
    std::atomic<int> inside = 0;
    const auto group = std::make_shared<TestGroup>(
        context,
        [&](const comm::HostCall& call) {
          CHECK(++inside == 1);
          order.push_back(call.sequence);
          if (call.out) static_cast<float*>(call.out)[0] += 1;
          --inside;
        },
        waiters);
    const Tensor t = zeros({3});
    std::vector<Work> works;
    for (int i = 0; i < 50; ++i) works.push_back(group->all_reduce(t));
    works[49].wait();
    CHECK(t.to_vector<int>() == std::vector<int>{50, 0, 0});
    for (std::uint64_t i = 0; i < 50; ++i) CHECK(order[i] == i + 1);
    const auto first = works[0].ran(), last = works[49].ran();
    REQUIRE((first && last));
    CHECK(first->second <= last->first);
    CHECK(monitor->lines[0] == "watch test");
    CHECK(monitor->lines[1] == "begin test 1 all_reduce(sum) of float32[3]");
    CHECK(monitor->lines[2] == "end test 1");
    monitor->tell("rank 6 was lost");
    CHECK_THROWS_WITH_AS((void)group->barrier(), Contains("rank 6 was lost"), DistributedError);
  }
}

TEST_CASE("an operation keeps its tensors, and lets them go when it ends") {
  std::atomic<bool> gone = false, open = false;
  float value = 1;
  Work work;
  {
    const auto group = std::make_shared<TestGroup>(context_of(), [&](const comm::HostCall& call) {
      open.wait(false);
      CHECK_FALSE(gone);
      *static_cast<float*>(call.out) = 2;
    });
    work = group->all_reduce(from_blob(&value, {1}, kFloat32, [&] { gone = true; }));
    open = true;
    open.notify_all();
  }
  CHECK(gone);
  CHECK(value == 2);
  work.wait();
}

TEST_CASE("a failure names operation, place and failed rank; later operations fail too") {
  auto context = context_of();
  const auto monitor = std::make_shared<RecordingMonitor>();
  context.monitor = monitor;
  std::atomic<bool> open = false;
  const auto group = std::make_shared<TestGroup>(context, [&](const comm::HostCall&) {
    open.wait(false);
    throw std::runtime_error("[link] the cable is out");
  });
  const Work work = group->all_reduce(zeros({4}), ReduceOp::min), behind = group->barrier();
  open = true;
  open.notify_all();
  const char* const reason =
      "all_reduce(min) of float32[4] (number 1 of group test) failed on rank 5: the cable is out; "
      "it was the gardener";
  for (int i = 0; i < 2; ++i)
    CHECK_THROWS_WITH_AS(work.wait(), fmt::format("[all_reduce] {}", reason).c_str(),
                         DistributedError);
  CHECK_THROWS_WITH_AS(behind.wait(), Contains(reason), DistributedError);
  CHECK(group->is_aborted());
  CHECK(group->cancelled);
  CHECK_THROWS_WITH_AS((void)group->broadcast(zeros({1})), Contains(reason), DistributedError);
  CHECK(monitor->lines.back() == "failure of test");
}

TEST_CASE("callers do not wait longer than the timeout, even if the backend does") {
  const auto group = std::make_shared<TestGroup>(
      context_of(std::chrono::milliseconds(100)), [&](const comm::HostCall& call) {
        while (true) {  // until the flag is set: ignores its own deadline
          if (call.interrupt.aborted) return;
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      });
  const Work work = group->barrier(), behind = group->barrier();
  CHECK_THROWS_WITH_AS(behind.wait(), Contains("did not end within 100 ms"), DistributedError);
  CHECK_THROWS_AS((void)group->barrier(), DistributedError);
  const auto looks = std::make_shared<TestGroup>(context_of(std::chrono::milliseconds(100)),
                                                 [](const comm::HostCall& call) {
                                                   while (true) call.interrupt.check();
                                                 });
  CHECK_THROWS_WITH_AS(looks->barrier().wait(), Contains("number 1 of group test"),
                       DistributedError);
}

TEST_CASE("neighbours compare their calls") {
  std::vector<std::string> errors(3);
  auto meshes = links::make_memory_links(3);
  const std::atomic<bool> never = false;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      GroupContext context = context_of();
      context.rank = rank;
      const links::Interrupt interrupt{"all_reduce", never,
                                       std::chrono::steady_clock::now() + std::chrono::seconds(60)};
      const auto compare = [&](std::int64_t n) {
        const comm::Call call{.kind = comm::Collective::all_reduce, .out = zeros({n})};
        check_same_call(*meshes[at], context, {call, 7, nullptr, nullptr, interrupt});
      };
      try {
        compare(3);
        compare(rank == 2 ? 4 : 3);
      } catch (const DistributedError& e) {
        errors[at] = e.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(errors[0] ==
        "[all_reduce] the ranks disagree: as number 7, rank 4 called all_reduce(sum) of "
        "float32[3], and rank 6 all_reduce(sum) of float32[4]");
  CHECK(errors[1].empty());
  CHECK_FALSE(errors[2].empty());
}

TEST_CASE("the process's default group is made once, and let go of") {
  CHECK_THROWS_WITH_AS(init_process_group("local"), Contains("run_ranks"), ValueError);
  CHECK_THROWS_WITH_AS(init_process_group("mpi"), Contains("\"gloo\""), ValueError);
  CHECK_THROWS_AS(init_process_group("gloo", {.timeout = Milliseconds(0)}), ValueError);
  CHECK_FALSE(is_initialized());
  destroy_process_group();
  if (!has_gloo()) {
    MESSAGE("skipped: there is no Gloo");
    return;
  }
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("ferrite_groups_{}", getpid());
  const InitOptions alone{.init_method = "file://" + file.string(),
                          .rank = 0,
                          .world_size = 1,
                          .timeout = std::chrono::seconds(60)};
  for (int start = 0; start < 2; ++start) {
    const auto group = init_process_group("gloo", alone);
    CHECK((is_initialized() && default_group() == group && get_world_size() == 1));
    CHECK_THROWS_WITH_AS(init_process_group("gloo", alone), Contains("already"), ValueError);
    std::thread([&] {  // visible to all threads, except ranks of another group
      CHECK(default_group() == group);
      const auto local = make_local_groups(1)[0];
      const DefaultGroupScope scope(local);
      CHECK(default_group() == local);
    })
        .join();
    const Tensor t = full({3}, 2);
    all_reduce(t, ReduceOp::avg);
    CHECK(t.to_vector<int>() == std::vector<int>{2, 2, 2});
    CHECK(group->new_group({0})->size() == 1);
    destroy_process_group();
    CHECK_FALSE(is_initialized());
    CHECK_THROWS_WITH_AS((void)group->barrier(), Contains("destroy_process_group"),
                         DistributedError);
  }
  std::filesystem::remove(file);
}
