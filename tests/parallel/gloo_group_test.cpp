// Groups of processes, with Gloo and with the ring, over shared memory and over TCP.
#include <doctest/doctest.h>
#include <signal.h>

#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/tests/parallel/collectives.h"
#include "ferrite/tests/parallel/processes.h"
#include "ferrite/tests/support/sanitizers.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using namespace parallel;
using namespace std::chrono_literals;

const auto kPatient = sanitized() ? 120s : 30s;
using Environment = std::map<std::string, std::string>;

#define REQUIRE_GLOO()                              \
  if (!has_gloo()) {                                \
    MESSAGE("skipped: this build is without Gloo"); \
    return;                                         \
  }

/// The default group for the scope of the object; afterwards nothing more is open than before.
class Member {
 public:
  explicit Member(std::chrono::milliseconds timeout = kPatient) {
    ones({100'000}).add_(1);  // starts the compute threads
    threads_ = thread_count();
    init_process_group("gloo", rank_init_options(timeout));
  }
  ~Member() {
    destroy_process_group();
    CHECK_FALSE(is_initialized());
    for (const auto& [fd, what] : open_files())
      CHECK_MESSAGE(files_.contains(fd), "left open: ", what);
    CHECK(thread_count() <= threads_);
  }
  ProcessGroup& operator*() const { return *default_group(); }
  ProcessGroup* operator->() const { return default_group().get(); }

 private:
  const std::map<int, std::string> files_ = open_files();
  int threads_ = 0;
};

std::string message_of(auto&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

RANK_FUNCTION(gloo_collectives) {
  Member group;
  CHECK(group->backend() == "gloo");
  CHECK(group->size() == ranks_of_job());
  CHECK(group->rank() == rank_of_process());
  CHECK(get_rank() == rank_of_process());
  CollectiveOptions options;
  options.large = std::stoi(environment_or("LARGE", "40001"));
  check_collectives(*group, Device(), options);
}

TEST_CASE("gloo: every collective among processes, over every transport") {
  REQUIRE_GLOO();
  const Environment shared = {}, gloo = {{"FERRITE_GLOO_ALL_REDUCE", "gloo"}},
                    gloo_over_tcp = {{"FERRITE_GLOO_ALL_REDUCE", "gloo"}, {"FERRITE_LINK", "tcp"}},
                    ring_over_tcp = {{"FERRITE_GLOO_ALL_REDUCE", "ring"}, {"FERRITE_LINK", "tcp"}};
  const std::string large = sanitized() ? "3001" : "40001";
  for (const int ranks : {2, 3, 4})
    for (Environment environment : {shared, gloo, gloo_over_tcp, ring_over_tcp}) {
      if (ranks != 3 && environment.contains("FERRITE_LINK")) continue;
      environment["LARGE"] = large;
      check_processes("gloo_collectives", ranks,
                      {.environment = environment, .deadline = kPatient});
    }
  check_processes("gloo_collectives", 1, {.environment = {{"LARGE", large}}});
}

RANK_FUNCTION(gloo_disagreements) {
  Member group;
  check_disagreements(*group, Device());
}

TEST_CASE("gloo: a mismatch is reported to all ranks with both calls") {
  REQUIRE_GLOO();
  check_processes("gloo_disagreements", 3, {.deadline = kPatient});
  check_processes("gloo_disagreements", 2,
                  {.environment = {{"FERRITE_GLOO_ALL_REDUCE", "gloo"}}, .deadline = kPatient});
}

// Sums and averages of values that only float32 arithmetic computes correctly, and large tensors,
// of more than one of Gloo's segments.
RANK_FUNCTION(gloo_rounds_once) {
  Member group;
  const int n = group->size(), me = group->rank();
  for (const DType dtype : {kFloat16, kBFloat16}) {
    // Parts that are lost if each is added to 1 separately, but not together.
    const double unit = dtype == kFloat16 ? 0x1p-10 : 0x1p-7;
    const double mine = me == 0 ? 1 : 0.375 * unit;
    const Tensor sum = full({3001}, mine, {.dtype = dtype}), of_root = sum.clone();
    const Tensor part = empty({1000}, {.dtype = dtype});
    group->all_reduce(sum).wait();
    group->reduce(of_root, n - 1).wait();
    group->reduce_scatter(part, full({1000 * n}, mine, {.dtype = dtype})).wait();
    CHECK(sum.to_vector<double>() == std::vector<double>(3001, 1 + unit));
    CHECK(part.to_vector<double>() == std::vector<double>(1000, 1 + unit));
    if (me == n - 1) CHECK(of_root.to_vector<double>() == std::vector<double>(3001, 1 + unit));
  }
  // Every rank has the same, correct bits, for some megabytes.
  const std::int64_t many = sanitized() ? 70'001 : 1'500'001;
  const Tensor t = arange(many).to(kFloat32);
  t.mul_(0.1 * (me + 1));
  group->all_reduce(t, ReduceOp::avg).wait();
  const Tensor all = empty({n * many}, {.dtype = kFloat32});
  group->all_gather(all, t).wait();
  const std::vector<float> got = all.to_vector<float>();
  bool same = true;
  for (std::int64_t i = 0; i < n * many; ++i)
    same &= got[std::size_t(i)] == got[std::size_t(i % many)];
  CHECK(same);
  CHECK(got[70'000] == doctest::Approx(7000.0 * (n + 1) / 2).epsilon(1e-6));
}

TEST_CASE("gloo: 16-bit values are rounded once; the same bits on all ranks") {
  REQUIRE_GLOO();
  for (const char* way : {"gloo", "auto"})
    check_processes("gloo_rounds_once", 3,
                    {.environment = {{"FERRITE_GLOO_ALL_REDUCE", way}}, .deadline = kPatient});
}

RANK_FUNCTION(gloo_sub_groups_come_and_go) {
  Member group;
  const int n = group->size(), me = group->rank();
  const auto once = [&](int i) {
    // All ranks, in a different order each time; a single rank; the others.
    std::vector<int> ranks;
    for (int r = 0; r < n; ++r) ranks.push_back((r + i) % n);
    const auto whole = group->new_group(ranks), alone = group->new_group({i % n});
    ranks.erase(ranks.begin());
    const auto others = group->new_group(ranks, 20s);
    CHECK(whole->rank() == (me - i % n + n) % n);
    CHECK((alone != nullptr) == (i % n == me));
    CHECK((others == nullptr) == (i % n == me));
    const Tensor t = full({257}, me + 1.0, {.dtype = kInt64});
    whole->all_reduce(t).wait();
    CHECK(t.to_vector<int>() == std::vector<int>(257, n * (n + 1) / 2));
    if (alone) alone->all_reduce(t).wait();
    if (others) {
      others->broadcast(t.fill_(me), n - 2).wait();
      CHECK(t.to_vector<int>()[256] == ranks.back());
      CHECK(others->timeout() == 20s);
    }
    // The last operation has ended here, but not on other ranks yet: leaving is harmless.
  };
  once(0);
  const std::size_t files = open_files().size();
  const int threads = thread_count();
  for (int i = 1; i < 8; ++i) {
    once(i);
    CHECK(open_files().size() <= files);
    // The system lists a thread for a moment after it was joined.
    for (int tries = 0; tries < 500 && thread_count() > threads; ++tries)
      std::this_thread::sleep_for(10ms);
    CHECK(thread_count() <= threads);
  }
}

TEST_CASE("gloo: sub-groups come and go, and leave nothing open") {
  REQUIRE_GLOO();
  for (const char* way : {"gloo", "auto"})
    check_processes("gloo_sub_groups_come_and_go", 3,
                    {.environment = {{"FERRITE_GLOO_ALL_REDUCE", way}}, .deadline = kPatient});
}

RANK_FUNCTION(gloo_settings) {
  const std::string me = std::to_string(rank_of_process());
  // Different algorithms on different ranks
  setenv("FERRITE_GLOO_ALL_REDUCE", rank_of_process() == 1 ? "gloo" : "ring", 1);
  const std::string differ =
      message_of([] { init_process_group("gloo", rank_init_options(kPatient)); });
  CHECK_MESSAGE(differ.find("ring on rank 0, and gloo on rank 1") != std::string::npos, differ);
  CHECK_FALSE(is_initialized());
}

RANK_FUNCTION(gloo_wrong_settings) {
  setenv("FERRITE_GLOO_ALL_REDUCE", "fast", 1);
  const std::string wrong =
      message_of([] { init_process_group("gloo", rank_init_options(kPatient)); });
  CHECK_MESSAGE(wrong.find("FERRITE_GLOO_ALL_REDUCE must be auto, gloo or ring, got fast") !=
                    std::string::npos,
                wrong);
}

RANK_FUNCTION(gloo_wrong_interface) {
  setenv("GLOO_SOCKET_IFNAME", "none0", 1);
  const std::string wrong =
      message_of([] { init_process_group("gloo", rank_init_options(kPatient)); });
  CHECK_MESSAGE(wrong.find("GLOO_SOCKET_IFNAME=none0") != std::string::npos, wrong);
}

RANK_FUNCTION(gloo_interface_and_signals) {
  setenv("GLOO_SOCKET_IFNAME", "lo,eth7", 1);
  Member group;
  // The program's signal handling is unchanged.
  struct sigaction now {};
  sigaction(SIGPIPE, nullptr, &now);
  const bool untouched = now.sa_handler == SIG_DFL;
  CHECK(untouched);
  const Tensor t = ones({5});
  group->all_reduce(t).wait();
  CHECK(t.to_vector<int>() == std::vector<int>(5, 2));
}

TEST_CASE("gloo: environment variables") {
  REQUIRE_GLOO();
  check_processes("gloo_settings", 2, {.deadline = kPatient});
  check_processes("gloo_wrong_settings", 2, {.deadline = kPatient});
  check_processes("gloo_wrong_interface", 2, {.deadline = kPatient});
  check_processes("gloo_interface_and_signals", 2,
                  {.environment = {{"FERRITE_GLOO_ALL_REDUCE", "gloo"}, {"FERRITE_LINK", "tcp"}},
                   .deadline = kPatient});
}

// An operation that one rank never calls ends at its deadline on the others, and then everything
// else does.
RANK_FUNCTION(gloo_waits_for_a_rank) {
  init_process_group("gloo", rank_init_options(kPatient));
  const auto group = default_group()->new_group({0, 1, 2}, 3s);
  const Tensor t = ones({environment_or("FERRITE_GLOO_ALL_REDUCE", "") == "gloo" ? 100'000 : 10});
  group->all_reduce(t).wait();
  if (rank_of_process() == 1) {
    std::string reason;
    for (int i = 0; i < 1000 && !group->is_aborted(); ++i)
      std::this_thread::sleep_for(10ms);  // busy with something else
    reason = message_of([&] { group->barrier().wait(); });
    CHECK_MESSAGE(reason.find("all_gather") != std::string::npos, reason);
  } else {
    const auto began = std::chrono::steady_clock::now();
    const Tensor out = empty({t.numel() * group->size()});
    const Work first = group->all_gather(out, t), second = group->barrier();
    const std::string error = message_of([&] { first.wait(); });
    const auto took = std::chrono::steady_clock::now() - began;
    CHECK_MESSAGE(error.find("rank 1") != std::string::npos, error);
    CHECK_MESSAGE(error.find("all_gather") != std::string::npos, error);
    CHECK(took >= 2s);
    if (!sanitized()) CHECK(took < 10s);
    CHECK(message_of([&] { second.wait(); }) != "");
    CHECK(message_of([&] { group->all_reduce(t).wait(); }) != "");
    CHECK(group->is_aborted());
  }
  destroy_process_group();
}

TEST_CASE("gloo: a rank that does not come is named when the time is over") {
  REQUIRE_GLOO();
  for (const char* way : {"gloo", "auto"})
    check_processes("gloo_waits_for_a_rank", 3,
                    {.environment = {{"FERRITE_GLOO_ALL_REDUCE", way}}, .deadline = kPatient});
}

RANK_FUNCTION(gloo_waits_for_ages) {
  init_process_group("gloo", rank_init_options(std::chrono::milliseconds::max()));
  const Tensor t = ones({3});
  all_reduce(t);
  if (rank_of_process() == 0) send(t, 1);
  if (rank_of_process() == 1) recv(t, 0);
  default_group()->new_group({0, 1})->all_reduce(t).wait();
  CHECK(t[0].item<float>() == 4);
  destroy_process_group();
}

TEST_CASE("gloo: the longest time-out") {
  REQUIRE_GLOO();
  for (const char* way : {"gloo", "auto"})
    check_processes("gloo_waits_for_ages", 2, {.environment = {{"FERRITE_GLOO_ALL_REDUCE", way}}});
}

// Rank 0 is late for what the others sent it, who have left by then and keep handles of the group.
RANK_FUNCTION(gloo_leaves_with_handles) {
  init_process_group("gloo", rank_init_options(60s));
  const auto kept = default_group();
  Tensor t = ones({1000});
  all_reduce(t);
  if (rank_of_process() == 0) std::this_thread::sleep_for(500ms);
  reduce(t, 0);
  if (rank_of_process() == 0) CHECK(t[0].item<float>() == 9);
  if (rank_of_process() == 1) send(t, 0);
  if (rank_of_process() == 0) {
    std::this_thread::sleep_for(200ms);
    recv(t, 1);
  }
  destroy_process_group();
  CHECK(message_of([&] { kept->barrier().wait(); }).find("destroy_process_group") !=
        std::string::npos);
}

TEST_CASE("gloo: ranks that leave early, with a handle of the group") {
  REQUIRE_GLOO();
  check_processes("gloo_leaves_with_handles", 3);
}

// If a rank is lost during group creation, the others do not wait until the timeout.
RANK_FUNCTION(gloo_loses_a_rank_as_it_connects) {
  init_process_group("gloo", rank_init_options(120s));
  barrier();
  if (rank_of_process() == 1) {
    std::this_thread::sleep_for(300ms);
    raise(SIGKILL);
  }
  const auto began = std::chrono::steady_clock::now();
  const std::string error = message_of([&] { default_group()->new_group({0, 1, 2}); });
  CHECK_MESSAGE(error.find("cannot connect: ") != std::string::npos, error);
  CHECK_MESSAGE(error.find("rank 1 was lost") != std::string::npos, error);
  CHECK((std::chrono::steady_clock::now() - began) < kPatient);
  destroy_process_group();
}

TEST_CASE("gloo: a rank that is lost as a group connects is named at once") {
  REQUIRE_GLOO();
  RankProcesses job("gloo_loses_a_rank_as_it_connects", 3);
  CHECK(job.wait_all());
  for (const int rank : {0, 2}) {
    CAPTURE(job.output(rank));
    CHECK(job.result(rank).ok());
  }
  CHECK(job.finish() == "");
}

TEST_CASE("gloo: a build without it says so") {
  if (has_gloo()) return;
  const std::string message = message_of([] { make_gloo_group({}); });
  CHECK(message.find("libgloo-dev") != std::string::npos);
}

}  // namespace
