// The cost of DistributedDataParallel: ranks as processes of this host, each with its share of the
// cores, train with and without communication in turns. One command, a Markdown table.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ferrite/benchmarks/program.h"
#include "ferrite/ferrite.h"

namespace {

using namespace ferrite;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

struct Options {
  std::vector<std::string> models = {"lenet", "resnet18"};
  std::string backend = "gloo", all_reduce = "group";
  int ranks = 2, threads = 1, rounds = 7;
  std::int64_t batch = 32;
  double seconds = 1, bucket_mb = 25, first_mb = 1;
  std::vector<int> delays_us = {0, 500};
};

std::unique_ptr<nn::Module> make_model(const std::string& name) {
  if (name == "lenet") return std::make_unique<nn::LeNet5>();
  FERRITE_CHECK(name == "resnet18", ValueError, "bench_ddp",
                "expected the model lenet or resnet18, got '{}'", name);
  return std::make_unique<nn::ResNet18>(
      nn::ResNetOptions{.classes = 10, .in_channels = 1, .stem = nn::ResNetStem::small});
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// ---- A rank

class Rank {
 public:
  Rank(const Options& options, const std::string& model)
      : model_(make_model(model)), ddp_(*model_, ddp_options(options)) {
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < options.batch; ++i) labels.push_back(i % 10);
    x_ = randn({options.batch, 1, 28, 28}).contiguous(kChannelsLast);
    y_ = from_vector(labels, {options.batch});
  }

  parallel::DistributedDataParallel<nn::Module>& ddp() { return ddp_; }

  /// Seconds for this many steps, which all ranks begin together.
  double run(std::int64_t steps, bool communicate) {
    parallel::barrier();
    const Clock::time_point start = Clock::now();
    if (communicate) {
      train(steps);
    } else {
      const parallel::NoSync alone = ddp_.no_sync();
      train(steps);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    parallel::barrier();
    return seconds;
  }

 private:
  void train(std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i) {
      sgd_.zero_grad();
      cross_entropy(ddp_(x_), y_).backward();
      sgd_.step();
    }
  }
  static parallel::DDPOptions ddp_options(const Options& o) {
    return {.bucket_cap_mb = o.bucket_mb,
            .first_bucket_mb = o.first_mb,
            .all_reduce = o.all_reduce == "ring" ? parallel::AllReduceAlgorithm::ring
                                                 : parallel::AllReduceAlgorithm::automatic};
  }

  std::unique_ptr<nn::Module> model_;
  parallel::DistributedDataParallel<nn::Module> ddp_;
  optim::SGD sgd_{ddp_.parameters(), {.lr = 1e-3, .momentum = 0.9}};
  Tensor x_, y_;
};

/// The number of steps per round, the same on all ranks.
std::int64_t choose_steps(Rank& rank, const Options& o) {
  const double seconds = rank.run(3, true) / 3;
  const Tensor steps = full({1}, std::max(1.0, o.seconds / seconds), {.dtype = kInt64});
  parallel::broadcast(steps);
  return steps.item<std::int64_t>();
}

void run_rank(const Options& o, const std::string& model, const std::string& folder) {
  parallel::init_process_group(o.backend, {.init_method = "file://" + folder + "/store",
                                           .timeout = std::chrono::seconds(60)});
  set_num_threads(o.threads);
  Rank rank(o, model);
  rank.run(3, true);  // buckets are rebuilt after the first step
  rank.run(1, false);
  const std::int64_t steps = choose_steps(rank, o);
  std::vector<double> with, without, shares;
  rank.ddp().reset_report();
  for (int round = 0; round < o.rounds; ++round) {
    const bool first = round % 2 == 0;  // each goes first equally often
    const double a = rank.run(steps, first), b = rank.run(steps, !first);
    with.push_back(first ? a : b);
    without.push_back(first ? b : a);
    shares.push_back(without.back() / with.back());
  }
  const parallel::DDPReport report = rank.ddp().report();
  const auto images = static_cast<double>(steps * o.batch);
  if (parallel::get_rank() == 0)
    std::ofstream(folder + "/result") << json{{"with", images / median(with)},
                                              {"without", images / median(without)},
                                              {"share", median(shares)},
                                              {"bytes", report.bytes},
                                              {"buckets", report.buckets.size()},
                                              {"backward", report.backward_ms},
                                              {"communication", report.communication_ms},
                                              {"overlap", report.overlap()},
                                              {"report", report.str()}};
  parallel::destroy_process_group();
}

// ---- All ranks

/// Starts itself once per rank; returns the result of rank 0.
json run_ranks(const Options& o, const std::string& model, int delay_us,
               const std::vector<std::string>& arguments) {
  std::string folder = (std::filesystem::temp_directory_path() / "bench_ddp_XXXXXX").string();
  FERRITE_CHECK(mkdtemp(folder.data()), IoError, "bench_ddp", "cannot make {}", folder);
  std::vector<std::string> words = arguments;
  words.insert(words.end(), {"--rank-of", model, "--folder", folder});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<pid_t> children;
  for (int r = 0; r < o.ranks; ++r) {
    const pid_t child = fork();
    FERRITE_CHECK(child >= 0, Error, "bench_ddp", "cannot start a process");
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto set = [](const char* name, int value) {
        setenv(name, std::to_string(value).c_str(), 1);
      };
      set("RANK", r);
      set("LOCAL_RANK", r);
      set("WORLD_SIZE", o.ranks);
      set("LOCAL_WORLD_SIZE", o.ranks);
      set("FERRITE_NUM_THREADS", o.threads);
      if (delay_us > 0) set("FERRITE_LINK_DELAY_US", delay_us);
      execv("/proc/self/exe", argv.data());
      _exit(127);
    }
    children.push_back(child);
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    good = waitpid(child, &status, 0) == child && status == 0 && good;
  }
  json result;
  if (good) std::ifstream(folder + "/result") >> result;
  std::filesystem::remove_all(folder);
  FERRITE_CHECK(good, Error, "bench_ddp", "a rank failed; its output is above");
  return result;
}

void run_all(const Options& o, const std::vector<std::string>& arguments, bool reports) {
  fmt::print(
      "{} processes of {} thread{}, {}, batches of {} per rank, medians of {} rounds in turns\n\n"
      "| model | link delay | gradients | without communication | with | share | backward | "
      "communication | hidden |\n| :-- | --: | --: | --: | --: | --: | --: | --: | --: |\n",
      o.ranks, o.threads, o.threads == 1 ? "" : "s", o.backend, o.batch, o.rounds);
  std::string details;
  for (const std::string& model : o.models)
    for (const int delay : o.delays_us) {
      const json r = run_ranks(o, model, delay, arguments);
      fmt::print(
          "| {} | {} us | {:.1f} MB in {} | {:.0f} images/s | {:.0f} images/s | {:.0f}% | {:.1f} "
          "ms "
          "| {:.1f} ms | {:.0f}% |\n",
          model, delay, r["bytes"].get<double>() / (1 << 20), r["buckets"].get<int>(),
          r["without"].get<double>(), r["with"].get<double>(), 100 * r["share"].get<double>(),
          r["backward"].get<double>(), r["communication"].get<double>(),
          100 * r["overlap"].get<double>());
      std::cout << std::flush;
      if (reports) details += "\n" + r["report"].get<std::string>();
    }
  fmt::print("{}", details);
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  std::string rank_of, folder;
  bool reports = false;
  CLI::App app{
      "Throughput of ranks with and without all-reduces of gradients, in images per second and "
      "rank, "
      "and the share of communication that backward hides"};
  app.option_defaults()->group("Training")->always_capture_default();
  app.add_option("--models", o.models, "lenet, resnet18")->delimiter(',');
  app.add_option("--backend", o.backend, "backend of the process group");
  app.add_option("--all-reduce", o.all_reduce, "the backend's (group) or Ferrite's (ring)");
  app.add_option("--ranks", o.ranks, "processes");
  app.add_option("--threads", o.threads, "threads per process");
  app.add_option("--batch", o.batch, "images of 28 x 28 per rank");
  app.option_defaults()->group("Measurement");
  app.add_option("--rounds", o.rounds, "measurements per variant");
  app.add_option("--seconds", o.seconds, "approximate duration of each");
  app.option_defaults()->group("DistributedDataParallel");
  app.add_option("--bucket-mb", o.bucket_mb, "DDPOptions::bucket_cap_mb");
  app.add_option("--first-mb", o.first_mb, "DDPOptions::first_bucket_mb");
  app.add_option("--delays", o.delays_us, "artificial latencies of links, in microseconds")
      ->delimiter(',');
  app.add_flag("--reports", reports, "prints DistributedDataParallel's reports too");
  app.add_option("--rank-of", rank_of)->group("");
  app.add_option("--folder", folder)->group("");
  return bench::run(app, argc, argv, [&] {
    if (rank_of.empty())
      run_all(o, std::vector<std::string>(argv, argv + argc), reports);
    else
      run_rank(o, rank_of, folder);
  });
}
