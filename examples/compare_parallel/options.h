// The command line of compare_parallel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/examples/compare_parallel/measurement.h"

namespace examples {
class CommandLine;
}

namespace examples::compare {

struct Options {
  // ---- What is trained
  std::string model = "lenet5";
  std::string dataset = "synthetic", data;
  std::int64_t image_size = 0;  ///< of synthetic images; 0: 28
  std::int64_t channels = 1, classes = 10;
  std::int64_t width = 64;  ///< of ResNet-18

  // ---- What is compared
  std::string device = "auto";
  std::vector<int> devices;  ///< how many
  std::int64_t batch = 0;
  bool batch_given = false;  ///< --batch, not its default
  std::string scaling = "both";
  std::vector<std::string> strategies;
  std::vector<double> bucket_mb;
  std::vector<std::string> overlap = {"on", "off"};
  std::vector<std::string> amp;
  int threads = 1;
  bool all_threads = false;
  std::string ranks = "process", backend;
  std::string link_delay = "none";

  // ---- How it is measured
  int steps = 0, warmup = 0, repetitions = 5;
  bool profile = true;
  double timeout = 120;  ///< seconds that a strategy may take in one repetition
  std::uint64_t seed = 0;

  // ---- What is written
  std::string json, csv, svg;
  bool quiet = false;

  // ---- Of the processes that the program starts: what to do, where the results go
  std::string worker, job;

  bool is_cuda() const { return device == "cuda"; }
};

/// An artificial latency and bandwidth (10^9 bytes a second) of the links between ranks.
struct LinkDelay {
  double microseconds = 0, gbps = 0;
  bool any() const { return microseconds > 0 || gbps > 0; }
};
/// "none", a preset's name, or "100us,1.25GB/s"; ValueError.
LinkDelay link_delay(const std::string& text);

void add_options(CommandLine& app, Options& options);
/// Fills in what depends on the machine and on other options; ValueError where these contradict
/// each other.
void complete(Options& options);

/// The lines of the table: baselines first.
std::vector<Case> cases_of(const Options& options);

}  // namespace examples::compare
