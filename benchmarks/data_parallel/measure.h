// The training task, and the timing of two variants in turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/ferrite.h"

namespace ferrite::bench {

struct Options {
  std::string model = "resnet18";
  std::vector<std::string> only = {"dp", "replicate", "ddp"};
  std::vector<std::string> devices = {"cpu:0", "cpu:1"};
  std::int64_t batch = 64;
  int rounds = 9;
  double seconds = 2;
  bool loss_in_replicas = false, reports = false;
  std::string json, process_folder;
};

std::unique_ptr<nn::Module> make_model(const std::string& name);

struct Batch {
  Tensor x, y;
};
Batch make_batch(std::int64_t size, const Device& device);

int processors();

/// Wall time, and processor time of all threads, in seconds.
struct Took {
  double wall = 0, cpu = 0;
};
Took time_of(const std::function<void()>& f);

/// The time of this many repetitions.
using Timed = std::function<Took(std::int64_t)>;

/// Over rounds; the spread is half the interquartile range.
struct Ratio {
  double median = 0, spread = 0;
};
Ratio ratio_of(std::vector<double> values);
double median(std::vector<double> values);

/// Seconds per repetition.
struct InTurns {
  double base = 0, other = 0;
  Ratio gain, cost;  ///< base / other; other / base
  Ratio work;        ///< other / base in processor time, which other programs disturb less
};
/// Each measurement lasts about o.seconds, or one repetition if that is longer; each side goes
/// first equally often.
InTurns in_turns(const Options& o, const Timed& base, const Timed& other);

}  // namespace ferrite::bench
