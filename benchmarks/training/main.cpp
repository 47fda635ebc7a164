// Trains on batches held in memory and says how fast: Ferrite's side of compare.py. One
// measurement for every line on stdin, one line of JSON for each on stdout.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "benchmarks/training/trainer.h"
#include "core/error.h"

namespace {

using namespace ferrite;
using bench::Options;

void print(const nlohmann::json& json) { std::cout << json.dump() << std::endl; }

double seconds_of(bench::Trainer& trainer, std::int64_t steps) {
  using Clock = std::chrono::steady_clock;
  trainer.synchronize();
  const Clock::time_point start = Clock::now();
  trainer.run(steps);
  trainer.synchronize();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// As many steps as take `options.seconds`, where they are not given.
std::int64_t choose_steps(bench::Trainer& trainer, const Options& options) {
  if (options.steps > 0) return options.steps;
  for (std::int64_t steps = 1;; steps *= 2) {
    const double elapsed = seconds_of(trainer, steps);
    if (elapsed > options.seconds / 4)
      return std::max<std::int64_t>(
          1, std::llround(static_cast<double>(steps) * options.seconds / elapsed));
  }
}

void serve(const Options& options) {
  bench::apply(options);
  bench::Trainer trainer(options);
  const Device device(options.device);
  trainer.run(2);  // what the libraries try out to choose a plan is none of the step's memory
  trainer.synchronize();
  bench::reset_peak_memory(device);
  trainer.run(std::max<std::int64_t>(options.warmup, options.execution == "graph" ? 5 : 1));
  trainer.synchronize();
  FERRITE_CHECK((options.execution == "graph") == (trainer.replayed() > 0), Error, "bench_training",
                "{} steps were replayed", trainer.replayed());
  const std::int64_t steps = choose_steps(trainer, options);

  nlohmann::json info = bench::describe(device);
  info.update({{"ready", true},
               {"model", options.model},
               {"layout", options.layout},
               {"precision", options.precision},
               {"execution", options.execution},
               {"cudnn_benchmark", options.cudnn_benchmark},
               {"batch", options.batch},
               {"threads", options.threads},
               {"steps", steps}});
  print(info);
  for (std::string line; std::getline(std::cin, line);) {
    trainer.run(2);  // wakes the threads, fills the caches
    const double seconds = seconds_of(trainer, steps);
    print({{"images_per_second", static_cast<double>(steps * options.batch) / seconds},
           {"seconds", seconds},
           {"steps", steps},
           {"loss", trainer.loss()},
           {"memory", bench::peak_memory(device)}});
  }
}

void add_options(CLI::App& app, Options& options, bool& probe) {
  std::vector<std::string> models;
  for (const bench::Task& t : bench::tasks()) models.push_back(t.name);
  const auto choice = [&](const char* name, std::string& value, std::vector<std::string> of,
                          const char* help) {
    app.add_option(name, value, help)->check(CLI::IsMember(std::move(of)))->capture_default_str();
  };
  const auto number = [&](const char* name, auto& value, const char* help) {
    app.add_option(name, value, help)->check(CLI::NonNegativeNumber)->capture_default_str();
  };
  choice("--model", options.model, models, "network and images");
  app.add_option("--device", options.device, "cpu, cuda or cuda:1 ...")->capture_default_str();
  choice("--layout", options.layout, {"contiguous", "channels_last"}, "NCHW or NHWC");
  choice("--precision", options.precision, {"float32", "tf32", "amp"},
         "tf32: products and convolutions of float32 may use it; amp: autocast, opt level O1");
  choice("--amp-dtype", options.amp_dtype, {"", "float16", "bfloat16"},
         "of amp; by default float16, on the CPU bfloat16");
  app.add_flag("--checkpoint", options.checkpoint,
               "ResNet: blocks keep only their inputs, and are computed again in backward");
  choice("--execution", options.execution, {"eager", "graph"},
         "op by op, or the whole step as one CUDA graph");
  app.add_flag("--cudnn-benchmark,!--no-cudnn-benchmark", options.cudnn_benchmark,
               "try out convolutions' plans");
  app.add_option("--batch", options.batch, "images a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  number("--steps", options.steps, "steps a measurement; 0: as many as take --seconds");
  number("--seconds", options.seconds, "that a measurement should take");
  number("--warmup", options.warmup, "steps before the first measurement");
  app.add_option("--batches", options.batches, "batches held in memory, used in turn")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", options.threads, "of the CPU")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--lr", options.lr)->capture_default_str();
  app.add_option("--momentum", options.momentum)->capture_default_str();
  app.add_flag("--probe", probe, "only say what this program is, and what it lacks here");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains on batches held in memory. Every line on stdin starts one measurement and is "
      "answered by a line of JSON.");
  Options options;
  bool probe = false;
  add_options(app, options, probe);
  CLI11_PARSE(app, argc, argv);
  try {
    if (probe) {
      nlohmann::json info = bench::describe(Device());
      info["lacks"] = bench::lacks();
      print(info);
    } else {
      serve(options);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
