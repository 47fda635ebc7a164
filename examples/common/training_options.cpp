#include "ferrite/examples/common/training_options.h"

#include <fmt/format.h>

#include <csignal>
#include <exception>
#include <iostream>

#include "ferrite/core/error.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/core/signals.h"
#include "ferrite/core/terminal.h"
#include "ferrite/examples/common/command_line.h"
#include "ferrite/metrics/timer.h"

namespace examples {

void add_training_options(CommandLine& app, TrainingOptions& options,
                          const std::vector<std::string>& models,
                          const std::vector<std::string>& datasets) {
  options.model = models.front();
  options.dataset = datasets.front();
  const auto positive = whole<std::int64_t>(1);
  app.topic("Data");
  app.add_option("--dataset", options.dataset, "data set to train on")
      .check(one_of(datasets))
      .capture_default_str();
  app.add_option("--data", options.data,
                 "folder that holds the data set (default $FERRITE_DATA, else ./data-sets)");
  app.topic("Model and training");
  app.add_option("--model", options.model, "network to train")
      .check(one_of(models))
      .capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the training set").check(positive);
  app.add_option("--max-steps", options.max_steps, "stop after this many steps (0: no limit)")
      .check(whole<std::int64_t>(0));
  app.add_option("--batch-size", options.batch_size, "images per step").check(positive);
  app.add_option("--lr", options.lr, "learning rate").check(above_zero());
  app.add_option("--optimizer", options.optimizer, "optimizer")
      .check(one_of({"sgd", "adam", "adamw", "rmsprop", "lars", "lamb"}));
  app.topic("Devices and threads");
  app.add_option("--device", options.device,
                 "auto (cuda if there is a CUDA device), cpu, cpu:N, cuda or cuda:N")
      .capture_default_str();
  app.add_flag("--graph", options.graph,
               "capture the training step as a CUDA graph and replay it (needs cuda)");
  app.add_option("--threads", options.threads, "compute threads (0: one per processor)")
      .check(whole(0, 1024));
  app.add_option("--workers", options.workers, "data loading threads (0: the training thread)")
      .check(whole(0, 256))
      .capture_default_str();
  app.add_option("--seed", options.seed, "seed of weights, shuffling and all other random numbers")
      .check(whole<std::uint64_t>(0))
      .capture_default_str();
  app.topic("Files");
  app.add_option("--checkpoint-dir", options.checkpoint_dir,
                 "folder for final.safetensors (created if missing)");
  app.add_option("--report", options.report, "JSON file for the configuration and every epoch");
  app.add_option("--curves", options.curves,
                 "SVG file for loss and accuracy by epoch (default next to the report, or in the "
                 "checkpoint folder)");
  app.add_option("--log", options.log,
                 "file with one row per epoch: CSV, or JSON Lines if the name ends in .jsonl");
  app.add_option("--tensorboard", options.tensorboard, "folder for TensorBoard event files");
  app.add_option(
      "--profile", options.profile,
      "profile steps 10 to 14: print a table, and write a trace for ui.perfetto.dev to this file");
  app.topic("Options of " + app.program());
}

ferrite::Device apply(const TrainingOptions& options) {
  if (options.threads > 0) ferrite::set_num_threads(options.threads);
  ferrite::manual_seed(options.seed);
  const bool choose = options.device == "auto";
  const ferrite::Device device =
      choose ? (ferrite::cuda::is_available() ? "cuda" : "cpu") : options.device;
  FERRITE_CHECK(!options.graph || device.is_cuda(), ferrite::ValueError, "--graph",
                "CUDA graphs need a CUDA device: expected --device cuda or cuda:N, got {}{}",
                device, choose ? ", because there is no CUDA device" : "");
  return device;
}

namespace {
ferrite::metrics::Timer since_start;
}

double seconds_since_start() { return since_start.seconds(); }

int run(int (*program)(int, char**), int argc, char** argv) {
  since_start.reset();
  ferrite::terminal::flush_lines();
  ferrite::ignore_unless_handled(SIGXFSZ);  // of stdout, where that is a file
  try {
    return program(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << ferrite::terminal::error_line(error.what());
    return 1;
  }
}

}  // namespace examples
