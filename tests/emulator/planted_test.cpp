// Every planted bug must be found in the builds that can find it, and nothing else.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ferrite/emulator/emulator.h"
#include "ferrite/tests/emulator/child.h"
#include "ferrite/tests/support/sanitizers.h"

namespace emulator_test {

namespace {

/// How each build finds a bug.
///   says      ends the program with a message that contains the text
///   result    the result is wrong in one of the orders that CI runs, or contains NaN
///   deferred  like result, if streams are deferred
///   protect   like says, if device memory is protected
/// A build with "-" cannot find it. The README has this table.
struct Bug {
  const char* name;
  const char* plain;
  const char* asan;
  const char* race;
};

constexpr const char* kResult = "result";
constexpr const char* kDeferred = "deferred";
constexpr const char* kNobody = "-";

const Bug kBugs[] = {
    // memory.cu
    {"writes_behind_the_end", "wrote behind the end", "use-after-poison", "touched memory"},
    {"reads_behind_the_end", kResult, "use-after-poison", "touched memory"},
    {"reads_far_behind_the_end", kNobody, "use-after-poison", "touched memory"},
    {"reads_what_was_freed", kResult, "use-after-poison", "touched memory"},
    {"writes_what_was_freed", "into the freed", "use-after-poison", "touched memory"},
    {"writes_misaligned_vector", kNobody, "misaligned address", "misaligned write"},
    {"writes_behind_shared_array", "past a shared array", "use-after-poison",
     "touched shared memory"},
    {"writes_behind_dynamic_shared", "past a shared array", "use-after-poison",
     "touched shared memory"},
    {"reads_behind_shared_array", kResult, "use-after-poison", "touched shared memory"},
    {"reads_unset_shared_memory", kResult, kResult, kResult},
    {"stores_to_shared_as_to_global_memory", "for global memory alone", "for global memory alone",
     "for global memory alone"},
    {"reads_unset_device_memory", kResult, kResult, kResult},
    {"writes_through_null", "touched address", "AddressSanitizer: SEGV", "touched address"},
    {"kernel_gets_host_memory", "host memory that no device", "host memory that no device",
     "host memory that no device"},
    {"kernel_gets_memory_of_another_device", "no peer access", "no peer access", "no peer access"},
    {"host_touches_device_memory", "protect", "protect", "protect"},
    // barriers.cu
    {"tree_without_first_barrier", kResult, kResult, "RACE"},
    {"tree_without_barrier_in_loop", kResult, kResult, "RACE"},
    {"left_without_barrier", kResult, kResult, "RACE"},
    {"product_without_first_barrier", kResult, kResult, "RACE"},
    {"product_without_last_barrier", kResult, kResult, "RACE"},
    {"divergent_barrier", "divergent barrier", "divergent barrier", "divergent barrier"},
    {"barrier_that_not_all_reach", "never ends", "never ends", "never ends"},
    {"polls_for_ever", "poll for what never comes", "poll for what never comes",
     "poll for what never comes"},
    {"runtime_call_in_kernel", "inside a kernel", "inside a kernel", "inside a kernel"},
    {"too_much_static_shared_memory", "more than a block", "more than a block",
     "more than a block"},
    {"static_beside_too_much_dynamic_shared_memory", "without cudaFuncSetAttribute",
     "without cudaFuncSetAttribute", "without cudaFuncSetAttribute"},
    // warps.cu
    {"warp_reverse_without_syncwarp", kResult, kResult, "RACE"},
    {"shuffle_names_returned_lanes", "returned", "returned", "returned"},
    {"lane_returns_while_others_wait", "returned", "returned", "returned"},
    {"shuffle_mask_without_itself", "not in its own mask", "not in its own mask",
     "not in its own mask"},
    {"shuffle_reads_lane_outside_of_mask", "leaves out", "leaves out", "leaves out"},
    {"shuffle_in_partial_warp", "which the block of 20 threads has not",
     "which the block of 20 threads has not", "which the block of 20 threads has not"},
    {"lanes_in_different_operations", "never ends", "never ends", "never ends"},
    {"async_copies_not_waited_for", kResult, kResult, kResult},
    // blocks.cu
    {"blocks_write_one_place", kNobody, kNobody, "RACE"},
    {"lost_update_of_threads", kNobody, kNobody, "RACE"},
    {"lost_update_of_blocks", kNobody, kNobody, "RACE"},
    {"plain_read_of_atomic", kNobody, kNobody, "RACE"},
    {"last_block_without_fence", kNobody, kNobody, "RACE"},
    // streams.cu
    {"kernels_in_two_streams_without_wait", kDeferred, kDeferred, "RACE"},
    {"copy_in_another_stream_without_wait", kDeferred, kDeferred, "RACE"},
    {"buffer_reuse_without_wait", kDeferred, kDeferred, "RACE"},
    {"branches_of_graph_without_join", kResult, kResult, "RACE"},
    {"host_read_without_wait", kDeferred, kDeferred, kDeferred},
    {"host_function_waits_for_its_stream", "waits for its own stream", "waits for its own stream",
     "waits for its own stream"},
};

const char* const kRight[] = {
    "tree",
    "left",
    "product",
    "barrier_without_returned_threads",
    "barriers_that_vote",
    "static_beside_much_dynamic_shared_memory",
    "warp_reverse",
    "warp_operations",
    "halves",
    "async_copies",
    "tensor_cores",
    "counting_atomically",
    "histograms",
    "last_block",
    "neighbouring_bytes",
    "atomics",
    "kernels_in_two_streams",
    "copy_in_another_stream",
    "buffer_reuse",
    "branches_of_graph",
    "default_stream_in_order",
    "host_read",
};

/// Seeds of random orders; every commit is tested with a different one.
const std::vector<Environment> kOrders = {
    {{"FERRITE_EMULATOR_SEED", "1"}},
    {{"FERRITE_EMULATOR_SEED", "2"}},
    {{"FERRITE_EMULATOR_SEED", "3"}},
};

bool wrong_in_some_order(const std::string& name, const std::string& defer) {
  for (Environment environment : kOrders) {
    environment.push_back({"FERRITE_EMULATOR_DEFER", defer});
    if (!run_planted(name, environment).right) return true;
  }
  return false;
}

/// `also`: another text that says it, or "".
void check_found(const std::string& name, const std::string& how, const std::string& also) {
  CAPTURE(name);
  if (how == kNobody) return;
  if (how == kResult || how == kDeferred) {
    CHECK_MESSAGE(wrong_in_some_order(name, how == kDeferred ? "1" : "0"),
                  "right in all orders: nobody would see this bug");
    return;
  }
  const bool protect = how == "protect";
  const Outcome outcome =
      run_planted(name, protect ? Environment{{"FERRITE_EMULATOR_PROTECT", "1"}} : Environment{});
  CHECK_MESSAGE(!outcome.finished, "the program did not fail: ", outcome.output);
  const std::string text = protect ? "on device 0" : how;
  const bool said = outcome.output.find(text) != std::string::npos ||
                    (!also.empty() && outcome.output.find(also) != std::string::npos);
  CHECK_MESSAGE(said, "expected \"", text, "\" in: ", outcome.output);
}

}  // namespace

TEST_CASE("every planted bug is found") {
  for (const Bug& bug : kBugs) {
    const bool race = emulator::has_race_detector();
    const bool asan = ferrite::test::has_address_sanitizer();
    // Where both are there, a wild address may first reach the address sanitizer's signal handler.
    check_found(bug.name,
                race   ? bug.race
                : asan ? bug.asan
                       : bug.plain,
                race && asan ? bug.asan : "");
  }
}

TEST_CASE("correct programs are right in every order, and nothing is found") {
  std::vector<Environment> orders = kOrders;
  orders.push_back({});
  orders.push_back({{"FERRITE_EMULATOR_ORDER", "descending"}});
  orders.push_back({{"FERRITE_EMULATOR_DEFER", "1"}, {"FERRITE_EMULATOR_PROTECT", "1"}});
  for (const std::string name : kRight) {
    CAPTURE(name);
    for (const Environment& order : orders) {
      const Outcome outcome = run_planted(name, order);
      CHECK_MESSAGE(outcome.right, outcome.output);
      CHECK_MESSAGE(outcome.output.find("emulator:") == std::string::npos, outcome.output);
    }
  }
}

TEST_CASE("a race report names both places and the kernel") {
  if (!emulator::has_race_detector()) {
    MESSAGE("skipped: this build has no race detector");
    return;
  }
  const std::string output = run_planted("left_without_barrier").output;
  for (const char* text : {"RACE in take_from_left launched at", "barriers.cu:", "write by block",
                           "read by block", "array of 1024 bytes", "findings"})
    CHECK_MESSAGE(output.find(text) != std::string::npos, "no \"", text, "\" in: ", output);
}

TEST_CASE("a divergent barrier's report names both barriers") {
  const std::string output = run_planted("divergent_barrier").output;
  const std::size_t first = output.find("barriers.cu:");
  REQUIRE(first != std::string::npos);
  CHECK(output.find("barriers.cu:", first + 1) != std::string::npos);
  CHECK(output.find("kernel two_barriers<<<") != std::string::npos);
}

}  // namespace emulator_test
