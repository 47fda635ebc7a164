// Groups on NCCL between processes, which may share a GPU if they appear as different hosts.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/error.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/parallel/collectives.h"
#include "ferrite/tests/parallel/processes.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::parallel;
using namespace std::chrono_literals;

namespace {

bool can_run_processes() { return test::can_use_nccl() && test::has_nccl_processes(); }

/// One GPU per rank if there are enough, else the first one for all.
std::shared_ptr<ProcessGroup> join_processes(std::chrono::milliseconds timeout = 60s) {
  const int rank = test::rank_of_process();
  const bool share = cuda::device_count() < test::ranks_of_job();
  if (share) setenv("NCCL_HOSTID", ("rank" + std::to_string(rank)).c_str(), 1);
  InitOptions options = test::rank_init_options(timeout);
  options.device = Device(DeviceType::cuda, share ? 0 : rank);
  return init_process_group("nccl", options);
}

Device device_of(const ProcessGroup& group) {
  const bool share = cuda::device_count() < group.size();
  return Device(DeviceType::cuda, share ? 0 : group.rank());
}

test::ProcessOptions process_options() {
  return {.environment = {{"NCCL_NET", "Socket"}, {"NCCL_SOCKET_IFNAME", "lo"}}, .deadline = 200s};
}

}  // namespace

RANK_FUNCTION(nccl_collectives) {
  const auto group = join_processes();
  const Device device = device_of(*group);
  test::check_collectives(*group, device, {.large = 40'001, .send_recv = false});
  cuda::Graph graph(device);
  const Tensor t = ones({1000}, {.device = device});
  graph.capture([&] { group->all_reduce(t, ReduceOp::avg).wait(); });
  t.fill_(group->rank());
  graph.replay();
  CHECK(t.to_vector<double>() == std::vector<double>(1000, (group->size() - 1) / 2.0));
  destroy_process_group();
}

TEST_CASE("all collectives on NCCL between processes") {
  if (!can_run_processes()) return;
  for (const int ranks : {2, 4})
    test::check_processes("nccl_collectives", ranks, process_options());
}

RANK_FUNCTION(nccl_sees_one_device) {
  setenv("LOCAL_RANK", "3", 1);  // as srun --gpus-per-task=1 and the like start the fourth
  REQUIRE(cuda::device_count() == 1);
  const auto group = init_process_group("nccl", test::rank_init_options(60s));
  CHECK(group->device() == Device("cuda:0"));
  const Tensor t = ones({3}, {.device = *group->device()});
  group->all_reduce(t).wait();
  CHECK(t.to_vector<double>() == std::vector<double>(3, 1));
  destroy_process_group();
}

TEST_CASE("a rank that sees one device uses it, whatever its local rank") {
  if (!test::can_use_nccl()) return;
  test::ProcessOptions options = process_options();
  options.environment["CUDA_VISIBLE_DEVICES"] = "0";
  options.environment["FERRITE_EMULATOR_DEVICES"] = "1";
  test::check_processes("nccl_sees_one_device", 1, options);
}

RANK_FUNCTION(nccl_rank_is_killed) {
  const auto group = join_processes(5s);
  const Device device = device_of(*group);
  const Tensor t = ones({1000}, {.device = device});
  group->all_reduce(t).synchronize();
  test::say("ready");
  const std::string said = test::message_of<DistributedError>([&] {
    for (;;) group->all_reduce(t, ReduceOp::max).synchronize();
  });
  CHECK_MESSAGE(said.find("rank 1") != std::string::npos, said);
  CHECK_MESSAGE(said.find("all_reduce") != std::string::npos, said);
}

TEST_CASE("a process that is killed ends the NCCL operations of the others") {
  if (!can_run_processes()) return;
  test::RankProcesses ranks("nccl_rank_is_killed", 2, process_options());
  REQUIRE(ranks.wait_for_output(0, "ready"));
  REQUIRE(ranks.wait_for_output(1, "ready"));
  ranks.signal(1, 9);
  CHECK(ranks.wait_all());
  CHECK_MESSAGE(ranks.result(0).ok(), ranks.output(0));
}
