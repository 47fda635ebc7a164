// Ranks that are killed, stopped or cut off from the network at random moments: all others are told
// the rank in time, and nothing is left behind.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/ddp/distributed_data_parallel.h"
#include "ferrite/tests/parallel/processes.h"
#include "ferrite/tests/support/sanitizers.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using namespace parallel;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const std::chrono::milliseconds kTimeout = sanitized() ? 10s : 3s;
/// Extra time for the detection on a busy machine.
const std::chrono::milliseconds kSlack = sanitized() ? 30s : 4s;

std::int64_t milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
}

// ---- The work of the ranks

/// A random operation, the same on all ranks.
void communicate(ProcessGroup& group, ProcessGroup& sub_group, std::mt19937_64& random) {
  const int n = group.size(), me = group.rank();
  const int root = static_cast<int>(random() % static_cast<unsigned>(n));
  const auto numel = static_cast<std::int64_t>(1 + random() % (random() % 2 ? 100 : 60'000));
  const Tensor t = full({numel}, me, {.dtype = random() % 3 ? kFloat32 : kBFloat16});
  const Tensor whole = empty({numel * n}, {.dtype = t.dtype()});
  switch (random() % 9) {
    case 0:
      return group.all_reduce(t, ReduceOp::avg).wait();
    case 1: {
      const Tensor other = ones({1000});
      const Work first = group.all_reduce(t), second = group.all_reduce(other);
      second.wait();
      return first.wait();
    }
    case 2:
      return group.broadcast(t, root).wait();
    case 3:
      return group.reduce(t, root).wait();
    case 4:
      return group.all_gather(whole, t).wait();
    case 5:
      return group.reduce_scatter(t, whole.fill_(1)).wait();
    case 6:
      return group.barrier().wait();
    case 7: {
      const Work sent = group.send(t.clone(), (me + 1) % n), got = group.recv(t, (me + n - 1) % n);
      got.wait();
      return sent.wait();
    }
    default:
      return sub_group.all_reduce(t).wait();
  }
}

/// Calls `step(group)` repeatedly until it fails.
template <class MakeStep>
void work_until_a_rank_is_lost(MakeStep&& make_step) {
  const std::map<int, std::string> files = open_files();
  init_process_group("gloo", rank_init_options(kTimeout));
  Clock::time_point began;
  {
    auto step = make_step(*default_group());
    step();
    say("working");
    try {
      for (;;) {
        began = Clock::now();
        step();
      }
    } catch (const DistributedError& e) {
      std::string message = e.what();
      std::replace(message.begin(), message.end(), '\n', ' ');
      say(fmt::format("lost after {} ms: {}", milliseconds_since(began), message));
    }
  }
  began = Clock::now();
  destroy_process_group();
  say(fmt::format("gone after {} ms", milliseconds_since(began)));
  for (const auto& [fd, what] : open_files()) CHECK_MESSAGE(files.contains(fd), "left: ", what);
}

RANK_FUNCTION(communicates_until_a_rank_is_lost) {
  work_until_a_rank_is_lost([](ProcessGroup& group) {
    std::vector<int> ranks;
    for (int r = group.size(); r-- > 0;) ranks.push_back(r);
    return [&group, sub_group = group.new_group(ranks),
            random = std::mt19937_64(std::stoull(environment_or("SEED", "1")))]() mutable {
      communicate(group, *sub_group, random);
    };
  });
}

/// LeNet with two or three buckets, which are communicated during backward.
struct Training {
  nn::LeNet5 model;
  DistributedDataParallel<nn::LeNet5> ddp{model, {.bucket_cap_mb = 0.1, .first_bucket_mb = 0.02}};
  optim::SGD sgd{model.parameters(), {.lr = 0.01}};
  Tensor images = full({4, 1, 28, 28}, 0.1 * (get_rank() + 1));
  Tensor labels = zeros({4}, {.dtype = kInt64});

  void step() {
    sgd.zero_grad();
    cross_entropy(ddp(images), labels).backward();
    sgd.step();
  }
};

RANK_FUNCTION(trains_until_a_rank_is_lost) {
  work_until_a_rank_is_lost([](ProcessGroup&) {
    manual_seed(1);
    return [training = std::make_shared<Training>()] { training->step(); };
  });
}

// ---- The fate of one rank

enum class Fate { killed, stopped, cut_off };

struct Trial {
  int number;
  std::string function;
  Fate fate;
  int ranks, victim;
  std::string all_reduce, link;  // how they communicate
  std::chrono::microseconds moment;
  std::uint64_t seed;

  std::string describe() const {
    const char* const fates[] = {"killed", "stopped", "cut off"};
    return fmt::format("trial {} (seed {}): {}, rank {} of {} {} after {} us, {} {}", number, seed,
                       function, victim, ranks, fates[static_cast<int>(fate)], moment.count(),
                       all_reduce, link);
  }
};

Trial make_trial(int number, const std::string& function, std::mt19937_64& random) {
  Trial trial{.number = number, .function = function};
  trial.fate = number % 5 == 3 ? Fate::stopped : number % 5 == 4 ? Fate::cut_off : Fate::killed;
  trial.ranks = 2 + static_cast<int>(random() % 3);
  trial.victim = static_cast<int>(random() % static_cast<unsigned>(trial.ranks));
  const int way = static_cast<int>(random() % 3);
  trial.all_reduce = way == 0 ? "gloo" : way == 1 ? "ring" : "auto";
  trial.link = way == 1 ? "tcp" : "";
  trial.moment = std::chrono::microseconds(random() % 40'000);
  trial.seed = random();
  return trial;
}

constexpr const char* kOperations[] = {"all_reduce", "broadcast",      "reduce",
                                       "all_gather", "reduce_scatter", "send",
                                       "recv",       "barrier",        "ring_all_reduce"};

/// "" or the error in how rank `r` ended.
std::string judge(const Trial& trial, int r, const RankResult& result) {
  if (!result.ok()) return result.describe();
  const std::size_t at = result.output.find("lost after ");
  if (at == std::string::npos) return "it noticed nothing";
  if (r == trial.victim) return "";  // cut off: it need not know that it is the lost one
  const std::string line = result.output.substr(at, result.output.find('\n', at) - at);
  const auto took = std::chrono::milliseconds(std::stol(line.substr(11)));
  if (took > kTimeout + kSlack) return "it noticed late";
  if (line.find(fmt::format("rank {}", trial.victim)) == std::string::npos)
    return "the rank is not named";
  if (std::none_of(std::begin(kOperations), std::end(kOperations),
                   [&](const char* op) { return line.find(op) != std::string::npos; }))
    return "no operation is named";
  return "";
}

/// "" or the error.
std::string run(const Trial& trial) {
  RankProcesses job(trial.function, trial.ranks,
                    {.environment = {{"FERRITE_GLOO_ALL_REDUCE", trial.all_reduce},
                                     {"FERRITE_LINK", trial.link},
                                     {"SEED", std::to_string(trial.seed)}},
                     .deadline = sanitized() ? 150s : 60s});
  std::string wrong;
  for (int r = 0; r < trial.ranks; ++r)
    if (!job.wait_for_output(r, "working")) wrong = "it did not begin";
  if (wrong.empty()) job.wait_for(trial.moment);
  const Clock::time_point event = Clock::now();
  if (trial.fate == Fate::cut_off)
    job.cut_off(trial.victim);
  else
    job.signal(trial.victim, trial.fate == Fate::killed ? SIGKILL : SIGSTOP);
  const bool stopped = trial.fate == Fate::stopped;
  if (!job.wait_all_but(stopped ? std::vector<int>{trial.victim} : std::vector<int>{}))
    wrong += " a rank hangs";
  // Twice: an operation may begin just before the loss, and goodbyes take time.
  if (milliseconds_since(event) > 2 * (kTimeout + kSlack).count()) wrong += " it took too long";
  for (int r = 0; r < trial.ranks; ++r) {
    if (r == trial.victim && trial.fate != Fate::cut_off) continue;
    const std::string verdict = judge(trial, r, job.result(r));
    if (!verdict.empty() || !wrong.empty())
      wrong += fmt::format("\nrank {}: {}\n{}", r, verdict, job.output(r));
  }
  const std::string left = job.finish();
  if (!left.empty()) wrong += "\nleft behind: " + left;
  return wrong.empty() ? "" : trial.describe() + ": " + wrong;
}

/// Several at a time: most of a trial is waiting for a silent rank.
void run_all(const std::vector<Trial>& trials) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::vector<std::string> failures;
  std::vector<std::thread> threads;
  for (int i = 0; i < (sanitized() ? 2 : 12); ++i)
    threads.emplace_back([&] {
      for (std::size_t t; (t = next++) < trials.size();) {
        std::string failure;
        try {
          failure = run(trials[t]);
        } catch (...) {
          failure = trials[t].describe() + ": the test itself failed";
        }
        const std::lock_guard lock(mutex);
        if (!failure.empty()) failures.push_back(failure);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) FAIL_CHECK(failure);
}

TEST_CASE("a rank that is killed, stopped or cut off is named on all others, in time") {
  if (!has_gloo()) {
    MESSAGE("skipped: this build is without Gloo");
    return;
  }
  std::mt19937_64 random(std::stoull(environment_or("FERRITE_TEST_SEED", "1")));
  const int count = std::stoi(environment_or("FERRITE_TEST_TRIALS", sanitized() ? "10" : "100"));
  std::vector<Trial> trials;
  for (int i = 0; i < count; ++i)
    trials.push_back(make_trial(
        i, i % 4 == 0 ? "trains_until_a_rank_is_lost" : "communicates_until_a_rank_is_lost",
        random));
  const Clock::time_point began = Clock::now();
  run_all(trials);
  MESSAGE(count, " ranks were lost, in ", milliseconds_since(began), " ms");
}

}  // namespace
