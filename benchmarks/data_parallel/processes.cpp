#include "ferrite/benchmarks/data_parallel/processes.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ferrite::bench {

namespace {

constexpr int kRanks = 2;

/// Rank 0's value on both ranks.
std::int64_t agree(std::int64_t value) {
  const Tensor t = full({1}, static_cast<double>(value), {.dtype = kInt64});
  parallel::broadcast(t);
  return t.item<std::int64_t>();
}

class Trainer {
 public:
  explicit Trainer(const Options& o)
      : model_(make_model(o.model)),
        ddp_(*model_),
        whole_(make_batch(o.batch, Device())),
        half_(make_batch(o.batch / kRanks, Device())) {}

  /// Both ranks, each with half of the batch.
  double together(std::int64_t steps) {
    parallel::barrier();
    const double seconds = time_of([&] { train(ddp_, half_, steps); }).wall;
    parallel::barrier();
    return seconds;
  }
  /// Rank 0 with the whole batch; the other waits.
  double alone(std::int64_t steps) {
    parallel::barrier();
    double seconds = 0;
    if (parallel::get_rank() == 0) seconds = time_of([&] { train(*model_, whole_, steps); }).wall;
    parallel::barrier();
    return seconds;
  }

 private:
  template <class M>
  void train(M& model, const Batch& batch, std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i) {
      sgd_.zero_grad();
      cross_entropy(model(batch.x), batch.y).backward();
      sgd_.step();
    }
  }

  std::unique_ptr<nn::Module> model_;
  parallel::DistributedDataParallel<nn::Module> ddp_;
  optim::SGD sgd_{ddp_.parameters(), {.lr = 1e-3, .momentum = 0.9}};
  Batch whole_, half_;
};

}  // namespace

void run_process(const Options& o) {
  parallel::init_process_group("gloo", {.init_method = "file://" + o.process_folder + "/store",
                                        .timeout = std::chrono::seconds(300)});
  set_num_threads(1);
  Trainer trainer(o);
  trainer.together(3);
  trainer.alone(1);
  const auto steps_of = [&](double seconds_of_two) {
    return agree(std::max<std::int64_t>(
        1, static_cast<std::int64_t>(o.seconds * 2 / std::max(seconds_of_two, 1e-9))));
  };
  const std::int64_t both = steps_of(trainer.together(2)), one = steps_of(trainer.alone(2));
  std::vector<double> base, parallel, gain;
  for (int round = 0; round < o.rounds; ++round) {
    const bool first = round % 2 == 0;
    if (first) base.push_back(trainer.alone(one) / static_cast<double>(one));
    parallel.push_back(trainer.together(both) / static_cast<double>(both));
    if (!first) base.push_back(trainer.alone(one) / static_cast<double>(one));
    gain.push_back(base.back() / parallel.back());
  }
  const auto images = static_cast<double>(o.batch);
  if (parallel::get_rank() == 0) {
    const Ratio ratio = ratio_of(gain);
    std::ofstream(o.process_folder + "/result")
        << nlohmann::json{{"base", images / median(base)},
                          {"parallel", images / median(parallel)},
                          {"ratio", ratio.median},
                          {"spread", ratio.spread}};
  }
  parallel::destroy_process_group();
}

nlohmann::json run_processes(const Options& o, const std::vector<std::string>& arguments) {
  FERRITE_CHECK(o.batch % kRanks == 0, ValueError, "bench_data_parallel",
                "expected a batch that {} processes can share, got {}", kRanks, o.batch);
  std::string folder =
      (std::filesystem::temp_directory_path() / "bench_data_parallel_XXXXXX").string();
  FERRITE_CHECK(mkdtemp(folder.data()), IoError, "bench_data_parallel", "cannot make {}", folder);
  std::vector<std::string> words = arguments;
  words.insert(words.end(), {"--process-folder", folder});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<pid_t> children;
  for (int r = 0; r < kRanks; ++r) {
    const pid_t child = fork();
    FERRITE_CHECK(child >= 0, Error, "bench_data_parallel", "cannot start a process");
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto set = [](const char* name, int value) {
        setenv(name, std::to_string(value).c_str(), 1);
      };
      set("RANK", r);
      set("LOCAL_RANK", r);
      set("WORLD_SIZE", kRanks);
      set("LOCAL_WORLD_SIZE", kRanks);
      set("FERRITE_NUM_THREADS", 1);
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
  nlohmann::json result;
  if (good) std::ifstream(folder + "/result") >> result;
  std::filesystem::remove_all(folder);
  FERRITE_CHECK(good, Error, "bench_data_parallel", "a process failed; its output is above");
  return result;
}

}  // namespace ferrite::bench
