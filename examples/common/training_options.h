// The options that all training programs share, with the same names and meanings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/core/device.h"

namespace examples {

class CommandLine;

struct TrainingOptions {
  std::string dataset = "synthetic-digits";
  std::string data;  ///< folder of the data set; empty: FERRITE_DATA, else the usual places
  std::string model;
  std::optional<std::int64_t> epochs;  ///< unset options take the model's own defaults
  std::optional<std::int64_t> batch_size;
  std::optional<double> lr;
  std::optional<std::string> optimizer;  ///< sgd, adam, adamw, rmsprop, lars, lamb
  std::int64_t max_steps = 0;            ///< 0: no limit
  std::string device = "auto";
  bool graph = false;  ///< steps are launched as CUDA graphs
  int threads = 0;     ///< 0: the default of the process
  int workers = 1;
  std::uint64_t seed = 0;
  std::string checkpoint_dir;
  std::string report;
  std::string curves;  ///< empty: beside the report, else in the checkpoint folder
  std::string log;
  std::string tensorboard;
  std::string profile;  ///< file for the trace of a few steps; empty: none
};

/// Adds the options to a program's command line; `models` and `datasets` are the values of --model
/// and --dataset; the first of each is the default.
void add_training_options(CommandLine& app, TrainingOptions& options,
                          const std::vector<std::string>& models,
                          const std::vector<std::string>& datasets);

/// The device that --device names ("auto": CUDA if there is a device). Also sets the number of
/// threads and the seed. ValueError for --graph without a CUDA device.
ferrite::Device apply(const TrainingOptions& options);

/// Seconds since run() began.
double seconds_since_start();

/// Runs `program`; an exception becomes one line on stderr and exit status 1.
int run(int (*program)(int, char**), int argc, char** argv);

}  // namespace examples
