// Compares Gloo's own all-reduce with Ferrite's ring, over TCP and through shared memory, between
// processes of this host: a Markdown table, and a JSON file.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/benchmarks/program.h"
#include "ferrite/core/error.h"
#include "ferrite/core/tensor.h"
#include "ferrite/core/version.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/process_group.h"

namespace {

using namespace ferrite;
using parallel::ProcessGroup;
using parallel::ReduceOp;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

struct Options {
  std::vector<int> ranks{2, 4};
  std::string smallest = "1KB", largest = "256MB", dtype = "float32", json;
  int step = 4, rounds = 15;
  double seconds = 0.02;
  // Set in the processes that the program starts.
  int rank = -1, size = 0;
  std::string store;
};

std::int64_t parse_bytes(const std::string& text) {
  std::size_t end = 0;
  const double number = std::stod(text, &end);
  const std::string unit = text.substr(end);
  const double scale = unit == "" || unit == "B" ? 1
                       : unit == "KB"            ? 1 << 10
                       : unit == "MB"            ? 1 << 20
                                                 : 0;
  FERRITE_CHECK(scale > 0 && number * scale >= 1, ValueError, "bench_collectives",
                "expected a size like 64KB, got {}", text);
  return static_cast<std::int64_t>(number * scale);
}

std::string format_bytes(std::int64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MB", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{} KB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

// ---- a rank

struct Contender {
  const char* name;
  std::shared_ptr<ProcessGroup> group;
  parallel::AllReduceAlgorithm algorithm;
};

/// Groups choose their communication when they are created.
std::vector<Contender> contenders(ProcessGroup& world) {
  std::vector<int> all;
  for (int rank = 0; rank < world.size(); ++rank) all.push_back(rank);
  setenv("FERRITE_GLOO_ALL_REDUCE", "gloo", 1);
  setenv("FERRITE_LINK", "tcp", 1);
  const std::shared_ptr<ProcessGroup> tcp = world.new_group(all);
  setenv("FERRITE_LINK", "shm", 1);
  const std::shared_ptr<ProcessGroup> shm = world.new_group(all);
  using enum parallel::AllReduceAlgorithm;
  return {{"Gloo", tcp, automatic}, {"ring, tcp", tcp, ring}, {"ring, shm", shm, ring}};
}

void all_reduce(const Contender& contender, const Tensor& values, std::int64_t times) {
  for (std::int64_t i = 0; i < times; ++i)
    contender.group->all_reduce(values, ReduceOp::max, contender.algorithm).wait();
}

struct Cost {
  double seconds, cpu;
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The cost of one call on the slowest rank.
Cost measure(ProcessGroup& world, const Contender& contender, const Tensor& values,
             std::int64_t times) {
  world.barrier().wait();
  const double cpu = cpu_seconds();
  const Clock::time_point start = Clock::now();
  all_reduce(contender, values, times);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const Tensor longest = tensor({seconds, cpu_seconds() - cpu}, {.dtype = kFloat64});
  world.all_reduce(longest, ReduceOp::max).wait();
  const std::vector<double> both = longest.to_vector<double>();
  const auto calls = static_cast<double>(times);
  return {both[0] / calls, both[1] / calls};
}

void run_rank(const Options& options) {
  const auto world = parallel::init_process_group("gloo", {.init_method = "file://" + options.store,
                                                           .rank = options.rank,
                                                           .world_size = options.size,
                                                           .timeout = std::chrono::minutes(5)});
  const std::vector<Contender> all = contenders(*world);
  const DType dtype = parse_dtype(options.dtype);
  for (std::int64_t bytes = parse_bytes(options.smallest); bytes <= parse_bytes(options.largest);
       bytes *= options.step) {
    const Tensor tensor =
        full({std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(itemsize(dtype)))}, 1,
             {.dtype = dtype});
    std::vector<std::int64_t> times;
    for (const Contender& contender : all) {
      const double once = measure(*world, contender, tensor, 1).seconds;  // connects, too
      const double again = std::min(once, measure(*world, contender, tensor, 1).seconds);
      times.push_back(std::clamp<std::int64_t>(std::llround(options.seconds / again), 1, 1000));
    }
    std::vector<std::vector<double>> seconds(all.size()), cpu(all.size());
    for (int round = 0; round < options.rounds; ++round)
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Cost cost = measure(*world, all[i], tensor, times[i]);
        seconds[i].push_back(cost.seconds);
        cpu[i].push_back(cost.cpu);
      }
    if (options.rank != 0) continue;
    for (std::size_t i = 0; i < all.size(); ++i)
      std::cout << Json{{"ranks", options.size},     {"bytes", bytes},
                        {"dtype", options.dtype},    {"all_reduce", all[i].name},
                        {"calls_a_round", times[i]}, {"seconds", seconds[i]},
                        {"cpu_seconds", cpu[i]}}
                       .dump()
                << std::endl;
  }
  parallel::destroy_process_group();
}

// ---- Starting the ranks, and reading rank 0's measurements

std::vector<Json> run_ranks(const Options& options, int size) {
  std::string folder = (std::filesystem::temp_directory_path() / "ferrite_bench_XXXXXX").string();
  std::array<int, 2> pipes{};
  FERRITE_CHECK(mkdtemp(folder.data()) && pipe(pipes.data()) == 0, IoError, "bench_collectives",
                "cannot make {} or a pipe", folder);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < size; ++rank) {
    std::vector<std::string> words{"bench_collectives",
                                   "--rank",
                                   std::to_string(rank),
                                   "--size",
                                   std::to_string(size),
                                   "--store",
                                   folder + "/store",
                                   "--smallest",
                                   options.smallest,
                                   "--largest",
                                   options.largest,
                                   "--step",
                                   std::to_string(options.step),
                                   "--dtype",
                                   options.dtype,
                                   "--rounds",
                                   std::to_string(options.rounds),
                                   "--seconds",
                                   std::to_string(options.seconds)};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t process = fork();
    if (process == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(rank == 0 ? pipes[1] : STDERR_FILENO, STDOUT_FILENO);
      close(pipes[0]);
      close(pipes[1]);
      execv("/proc/self/exe", arguments.data());
      _exit(127);
    }
    processes.push_back(process);
  }
  close(pipes[1]);
  std::string output;
  std::array<char, 4096> some;
  for (ssize_t n = 0; (n = read(pipes[0], some.data(), some.size())) > 0;)
    output.append(some.data(), static_cast<std::size_t>(n));
  close(pipes[0]);
  bool failed = false;
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    failed |= status != 0;
  }
  std::filesystem::remove_all(folder);
  FERRITE_CHECK(!failed, Error, "bench_collectives", "a rank of {} failed", size);
  std::vector<Json> results;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) results.push_back(Json::parse(line));
  return results;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// The table's entries for a measurement, besides the seconds.
void summarize(Json& result, const Json& gloo) {
  auto seconds = result["seconds"].get<std::vector<double>>();
  const double bytes = result["bytes"].get<double>(), n = result["ranks"].get<double>();
  const double typical = median(seconds);
  result["median_seconds"] = typical;
  result["median_cpu_seconds"] = median(result["cpu_seconds"].get<std::vector<double>>());
  result["algorithm_gb_per_second"] = bytes / typical * 1e-9;
  result["bus_gb_per_second"] = bytes / typical * 2 * (n - 1) / n * 1e-9;
  // Round by round, because other load on the machine affects neighbouring measurements alike.
  std::vector<double> ratios;
  for (std::size_t i = 0; i < seconds.size(); ++i)
    ratios.push_back(gloo["seconds"][i].get<double>() / seconds[i]);
  result["times_gloo"] = median(ratios);
  std::ranges::sort(seconds);
  result["spread_seconds"] = (seconds[seconds.size() * 3 / 4] - seconds[seconds.size() / 4]) / 2;
}

void print_table(const std::vector<Json>& results, int size) {
  std::cout << fmt::format("\n{} ranks\n\n", size)
            << "| size | all-reduce | time | ± | CPU | algorithm | bus | Gloo = 1 |\n"
               "| --: | :-- | --: | --: | --: | --: | --: | --: |\n";
  for (const Json& r : results)
    std::cout << fmt::format(
        "| {} | {} | {:.1f} us | {:.1f} | {:.1f} us | {:.2f} GB/s | {:.2f} GB/s | {:.2f} |\n",
        format_bytes(r["bytes"]), r["all_reduce"].get<std::string>(),
        r["median_seconds"].get<double>() * 1e6, r["spread_seconds"].get<double>() * 1e6,
        r["median_cpu_seconds"].get<double>() * 1e6, r["algorithm_gb_per_second"].get<double>(),
        r["bus_gb_per_second"].get<double>(), r["times_gloo"].get<double>());
  std::cout << std::flush;
}

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 16> text;
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts)};
}

void compare(const Options& options, const std::string& command) {
  Json report{{"version", FERRITE_VERSION},
              {"command", command},
              {"date", today()},
              {"processor", processor()},
              {"cores", std::thread::hardware_concurrency()},
              {"results", Json::array()}};
  std::cout << fmt::format("{}, {} cores, {}; medians of {} rounds; bus = algorithm x 2(n-1)/n\n",
                           processor(), std::thread::hardware_concurrency(), options.dtype,
                           options.rounds);
  for (const int size : options.ranks) {
    std::vector<Json> results = run_ranks(options, size);
    for (std::size_t i = 0; i < results.size(); ++i) summarize(results[i], results[i - i % 3]);
    print_table(results, size);
    for (Json& result : results) report["results"].push_back(std::move(result));
    if (!options.json.empty()) std::ofstream(options.json) << report.dump(1) << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Compares Gloo's own all-reduce with Ferrite's ring over TCP and shared memory"};
  app.option_defaults()->group("Processes and tensors");
  app.add_option("--ranks", options.ranks, "numbers of processes, one table each")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--smallest", options.smallest, "bytes of the smallest tensor")
      ->capture_default_str();
  app.add_option("--largest", options.largest, "bytes of the largest tensor")
      ->capture_default_str();
  app.add_option("--step", options.step, "factor from one size to the next")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  app.add_option("--dtype", options.dtype, "of the tensors")->capture_default_str();
  app.option_defaults()->group("Measurement");
  app.add_option("--rounds", options.rounds, "rounds in which the three take turns")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "duration of a round of calls, for small tensors")
      ->capture_default_str();
  app.add_option("--json", options.json, "file for all measurements");
  app.add_option("--rank", options.rank)->group("");
  app.add_option("--size", options.size)->group("");
  app.add_option("--store", options.store)->group("");
  return bench::run(app, argc, argv, [&] {
    FERRITE_CHECK(parallel::has_gloo(), Error, "bench_collectives",
                  "this Ferrite was built without Gloo");
    if (options.rank >= 0) {
      run_rank(options);
    } else {
      std::string command;
      for (int i = 0; i < argc; ++i) command += std::string(i ? " " : "") + argv[i];
      compare(options, command);
    }
  });
}
