// The command line of resnet18.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "ferrite/examples/common/dataset.h"
#include "ferrite/examples/common/training_options.h"

namespace examples {

struct Options : TrainingOptions {
  // ---- The network and its images
  std::string stem = "auto";  ///< auto, standard (7x7, pooling) or small (3x3)
  std::int64_t width = 64;
  bool channels_last = false;
  ImageOptions images = {.augment = true};
  std::string freeze;  ///< pattern of the parameters that are not trained; empty: none

  // ---- How it is trained
  std::string schedule = "cosine";  ///< after the warm-up: cosine, step or constant
  double warmup_epochs = 0;
  double momentum = 0.9, weight_decay = 5e-4;
  double label_smoothing = 0;
  double max_grad_norm = 0;  ///< 0: gradients are not clipped
  std::int64_t accumulate = 1;
  double ema = 0;               ///< decay of the averaged weights; 0: there are none
  double max_loss_factor = 10;  ///< 0: only a loss that is not finite is skipped

  // ---- Mixed precision
  std::string opt_level = "O0";
  std::string half = "float16";
  std::optional<bool> keep_batchnorm_fp32;
  std::string loss_scale;  ///< a number or "dynamic"; empty: as the level has it

  // ---- Several processes
  bool ddp = false;
  bool sync_bn = false;                ///< norms by the statistics of all processes
  std::string backend;                 ///< nccl or gloo; empty: by the device
  std::string scale_lr = "none";       ///< with the images of a step: none, linear or sqrt
  std::int64_t base_batch_size = 128;  ///< those that --lr is for

  // ---- Checkpoints and messages
  bool resume = false;
  std::int64_t save_every = 0;  ///< steps; 0: after each epoch only
  int keep = 3;
  std::int64_t print_freq = 50;
};

/// Reads the command line; fills in what depends on other options. Where it asked for help, or is
/// wrong, that has been printed and `exit_code` is set. ValueError for options that contradict.
Options parse_options(int argc, char** argv, std::optional<int>& exit_code);

/// What decides on the result, as a report and a checkpoint have it: all but device, threads,
/// workers, folders and how often something is printed or saved.
nlohmann::json configuration(const Options& options);

/// ValueError, naming the options, where a run would go on with others than the one it goes on
/// with, whose configuration is `text`.
void check_same_configuration(const nlohmann::json& mine, const std::string& text);

}  // namespace examples
