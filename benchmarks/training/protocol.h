// The protocol between compare.py and the programs it measures: their options, and one line of JSON
// for every line on stdin. Shared by the programs of both frameworks, so C++17 without either.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/benchmarks/program.h"
#include "ferrite/benchmarks/training/inputs.h"

namespace bench {

/// Whole training steps; or the forward pass of evaluation, which records nothing.
enum class Mode : std::uint8_t { train, forward };

inline std::string name(Mode mode) { return mode == Mode::train ? "train" : "forward"; }

struct Options {
  std::string model = "lenet5";
  std::string device = "cpu";
  std::string layout = "channels_last";
  std::string precision = "float32";
  std::string execution = "eager";
  std::string mode = "train";  ///< or "forward", or "both"
  std::string amp_dtype;       ///< for precision amp; default: float16, bfloat16 on the CPU
  bool checkpoint = false;     ///< ResNet's blocks keep only their inputs for backward
  bool cudnn_benchmark = true;
  std::int64_t batch = 64, steps = 0, warmup = 10, batches = 4;
  double seconds = 0.5;
  int threads = 1;
  double lr = 0.05, momentum = 0.9;
};

/// The modes selected by options.mode.
inline std::vector<Mode> modes(const Options& options) {
  if (options.mode == "both") return {Mode::train, Mode::forward};
  return {options.mode == "train" ? Mode::train : Mode::forward};
}

/// Maximum of images, batches and steps: values computed from them fit in 64 bits.
constexpr std::int64_t kMostCount = 1'000'000'000;

/// The options that every side understands.
inline void add_options(CLI::App& app, Options& options) {
  std::vector<std::string> models;
  for (const Task& t : tasks()) models.push_back(t.name);
  const auto choice = [&](const char* flag, std::string& value, std::vector<std::string> of,
                          const char* help) {
    app.add_option(flag, value, help)->check(CLI::IsMember(std::move(of)))->capture_default_str();
  };
  const CLI::Range count(std::int64_t{1}, kMostCount), count_or_none(std::int64_t{0}, kMostCount);
  const auto number = [&](const char* flag, auto& value, const CLI::Validator& check,
                          const char* help) {
    app.add_option(flag, value, help)->check(check)->capture_default_str();
  };
  app.option_defaults()->group("What is trained");
  choice("--model", options.model, models, "network, and its images or texts");
  app.add_option("--device", options.device, "cpu, cuda or cuda:1 ...")->capture_default_str();
  choice("--layout", options.layout, {"contiguous", "channels_last"}, "NCHW or NHWC");
  choice("--precision", options.precision, {"float32", "tf32", "amp"},
         "tf32: products and convolutions of float32 may use it; amp: autocast, opt level O1");
  choice("--amp-dtype", options.amp_dtype, {"", "float16", "bfloat16"},
         "for amp; default: float16, on the CPU bfloat16");
  choice("--execution", options.execution, {"eager", "graph", "optimized"},
         "op by op, the whole step as one CUDA graph, or forward passes of the network as "
         "nn::optimize_for_inference makes it");
  choice("--mode", options.mode, {"train", "forward", "both"},
         "whole training steps, the forward pass of evaluation (nothing recorded), or the mode "
         "that each line on stdin names");
  app.add_flag("--cudnn-benchmark,!--no-cudnn-benchmark", options.cudnn_benchmark,
               "try out convolutions' plans");
  app.add_option("--lr", options.lr,
                 "of SGD; AdamW, which trains networks of texts, has a hundredth")
      ->capture_default_str();
  app.add_option("--momentum", options.momentum, "of SGD")->capture_default_str();
  app.option_defaults()->group("Measurement");
  number("--batch", options.batch, count, "images or texts per step");
  number("--steps", options.steps, count_or_none,
         "steps per measurement; 0: as many as take --seconds");
  number("--seconds", options.seconds, CLI::NonNegativeNumber,
         "approximate duration of a measurement");
  number("--warmup", options.warmup, count_or_none,
         "steps before the first measurement; fewer if they take longer than --seconds");
  number("--batches", options.batches, count, "batches held in memory, used in turn");
  number("--threads", options.threads, CLI::PositiveNumber, "CPU threads");
}

/// A line of /proc/self/status, in bytes; 0 if it does not exist. "VmHWM": the peak resident size.
inline std::uint64_t process_memory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(key + ":", 0) == 0) return std::stoull(line.substr(key.size() + 1)) * 1024;
  return 0;
}

/// Resets VmHWM to the current resident size.
inline void reset_process_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

// ---- Measuring. A trainer has
//   void run(Mode, std::int64_t steps);  queues steps, possibly 0
//   void synchronize();                  waits for them
//   double loss();                       of the last one
//   void reset_peak_memory();            restarts the measurement of peaks
//   nlohmann::json peak_memory();        with "peak_bytes"

/// One measurement of a mode.
struct Measurement {
  Mode mode;
  std::int64_t steps;
  double step_seconds;  ///< approximate
};

template <class Trainer>
double seconds_of(Trainer& trainer, Mode mode, std::int64_t steps) {
  using Clock = std::chrono::steady_clock;
  trainer.synchronize();
  const Clock::time_point start = Clock::now();
  trainer.run(mode, steps);
  trainer.synchronize();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Runs `options.warmup` steps, fewer if they take longer than a measurement should, and chooses
/// the number of steps that take `options.seconds`, unless it is given.
template <class Trainer>
Measurement warm_up(Trainer& trainer, Mode mode, const Options& options) {
  const std::int64_t least = options.execution == "graph" ? 5 : 1;
  double last = 0, total = 0;
  for (std::int64_t i = 0; i < least || (i < options.warmup && total < options.seconds); ++i)
    total += last = seconds_of(trainer, mode, 1);
  if (options.steps > 0) return {mode, options.steps, last};
  std::int64_t steps = 1;
  if (last < options.seconds) last = seconds_of(trainer, mode, steps);
  while (last <= options.seconds / 4) last = seconds_of(trainer, mode, steps *= 2);
  const double step = last / static_cast<double>(steps);
  return {mode, std::max<std::int64_t>(1, std::llround(options.seconds / step)), step};
}

template <class Trainer>
std::vector<Measurement> prepare(Trainer& trainer, const Options& options) {
  std::vector<Measurement> result;
  for (const Mode mode : modes(options)) {
    trainer.run(mode, 1);  // memory used to try out plans is not counted
    trainer.synchronize();
    trainer.reset_peak_memory();
    result.push_back(warm_up(trainer, mode, options));
  }
  return result;
}

/// Answers the lines on stdin: the first reply describes this program (`info`), every other one is
/// a measurement.
template <class Trainer>
void serve(Trainer& trainer, const Options& options, nlohmann::json info) {
  const std::vector<Measurement> prepared = prepare(trainer, options);
  info.update({{"ready", true},
               {"model", options.model},
               {"layout", options.layout},
               {"precision", options.precision},
               {"execution", options.execution},
               {"cudnn_benchmark", options.cudnn_benchmark},
               {"batch", options.batch},
               {"threads", options.threads}});
  for (const Measurement& m : prepared) info["steps"][name(m.mode)] = m.steps;
  answer(info);
  for (std::string line; std::getline(std::cin, line);) {
    const auto named = std::find_if(prepared.begin(), prepared.end(),
                                    [&](const Measurement& m) { return name(m.mode) == line; });
    const Measurement& m = named == prepared.end() ? prepared.front() : *named;
    // Wakes the threads, fills the caches.
    trainer.run(m.mode, m.step_seconds < 0.01 ? 2 : m.step_seconds < 0.1 ? 1 : 0);
    const std::clock_t cpu = std::clock();  // of all threads
    const double seconds = seconds_of(trainer, m.mode, m.steps);
    const double cpu_seconds = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
    answer({{"mode", name(m.mode)},
            {"images_per_second", static_cast<double>(m.steps * options.batch) / seconds},
            {"seconds", seconds},
            {"cpu_seconds", cpu_seconds},
            {"steps", m.steps},
            {"loss", trainer.loss()},
            {"memory", trainer.peak_memory()}});
  }
}

/// The main function of a program: `probe` describes it, including missing features, `measure`
/// measures.
template <class Probe, class Measure>
int serve_main(int argc, char** argv, Options& options, CLI::App& app, Probe&& probe,
               Measure&& measure) {
  bool only_probe = false;
  app.add_flag("--probe", only_probe, "only describe this program and the features that it lacks");
  return run(app, argc, argv, [&] {
    if (options.mode != "train" && options.execution == "graph")
      throw std::invalid_argument("only training steps run as graphs: use --mode train");
    if (options.mode != "forward" && options.execution == "optimized")
      throw std::invalid_argument("only forward passes are optimized: use --mode forward");
    only_probe ? answer(probe()) : measure();
  });
}

inline constexpr const char* kAbout =
    "Trains on batches held in memory, or evaluates them. Every line on stdin starts one "
    "measurement, of the mode that it names (default: the first), and is answered by a line of "
    "JSON.";

}  // namespace bench
