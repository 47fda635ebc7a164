// examples/elastic: training that survives the death of its ranks.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ferrite/parallel/comm/backend.h"
#include "ferrite/tests/examples/workplace.h"
#include "ferrite/tests/parallel/launched.h"
#include "ferrite/tests/support/sanitizers.h"

using namespace ferrite::test;

namespace {

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random {
  std::uint64_t state;
  std::uint64_t below(std::uint64_t bound) {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return (z ^ (z >> 31)) % bound;
  }
};

const int kRuns = sanitized() ? 1 : 3;  // sanitizers make each process ten times as slow

/// 192 steps of a small batch on three ranks, with a checkpoint every third: long enough that a
/// busy machine, on which a kill comes late, does not end it first.
class Elastic {
 public:
  Arguments arguments(const std::string& run, const Arguments& launcher) const {
    Arguments all = {"--nproc-per-node=3", "--monitor-interval=0.02"};
    all.insert(all.end(), launcher.begin(), launcher.end());
    const Arguments program = {ferrite::test::bin_dir() + "/elastic",
                               "--dataset",
                               "mnist",
                               "--data",
                               data_.path().string(),
                               "--batch-size",
                               "4",
                               "--epochs",
                               "24",
                               "--device",
                               "cpu",
                               "--save-every",
                               "3",
                               "--print-freq",
                               "1",
                               "--checkpoint-dir",
                               (data_ / run).string()};
    all.insert(all.end(), program.begin(), program.end());
    return all;
  }
  std::string weights(const std::string& run) const {
    return read_file(data_ / run / "final.safetensors");
  }

 private:
  Workplace data_{"elastic"};
};

/// The process of a rank, 0 if there is none at the moment.
pid_t process_of(const Launched& run, std::uint64_t rank) {
  const std::string mine = '\0' + ("RANK=" + std::to_string(rank)) + '\0';
  for (const pid_t pid : run.descendants()) {
    const auto folder = std::filesystem::path("/proc") / std::to_string(pid);
    if (contains('\0' + read_file(folder / "environ"), mine)) return pid;
  }
  return 0;
}

/// Waits until `more` further steps were taken; false if the run ends.
bool wait_for_steps(const Launched& run, std::uint64_t more) {
  return run.wait_for_output("\n[rank 0] step ",
                             occurrences(run.out(), "\n[rank 0] step ") + static_cast<int>(more));
}

}  // namespace

TEST_CASE(
    "ranks are killed and stopped at random, and the weights are those of an undisturbed run") {
  if (!ferrite::parallel::has_gloo()) {
    MESSAGE("skipped: this build is without Gloo");
    return;
  }
  const Elastic elastic;
  const LaunchResult alone = launch(elastic.arguments("alone", {}));
  INFO(alone.out, alone.err);
  REQUIRE(alone.code == 0);
  CHECK(contains(alone.out, "[rank 0] step 192/192  train loss "));
  CHECK(contains(alone.out, "after 192 steps"));
  const std::string expected = elastic.weights("alone");
  REQUIRE(expected.size() > 100'000);

  Random random{20261122};
  for (int i = 0; i < kRuns; ++i) {
    const std::string name = "killed" + std::to_string(i);
    Launched run(elastic.arguments(name, {"--max-restarts=20", "--heartbeat-timeout=20"}));
    int kills = 0;
    while (kills < 4 && wait_for_steps(run, random.below(40) + 1)) {
      usleep(static_cast<useconds_t>(random.below(20'000)));
      const pid_t victim = process_of(run, random.below(3));
      if (victim == 0 || kill(victim, SIGKILL) != 0) continue;
      ++kills;
      run.wait_for_output("restart " + std::to_string(kills) + " of 20");
    }
    CHECK(run.wait() == 0);
    INFO(run.out(), run.err());
    CHECK(kills >= 3);
    CHECK(elastic.weights(name) == expected);
    CHECK(contains(run.err(), "was ended by SIGKILL"));
    CHECK(run.descendants().empty());
  }

  // A stopped rank blocks the others until it is detected.
  Launched run(elastic.arguments("stopped", {"--max-restarts=3", "--heartbeat-timeout=5"}));
  REQUIRE(wait_for_steps(run, 10));
  const pid_t victim = process_of(run, 1);
  REQUIRE(victim != 0);
  REQUIRE(kill(victim, SIGSTOP) == 0);
  CHECK(run.wait() == 0);
  INFO(run.out(), run.err());
  CHECK(contains(run.err(), "[ferrite-run] rank 1 ("));
  CHECK(contains(run.err(), "has not answered for"));
  CHECK(elastic.weights("stopped") == expected);
}
