// The command line of resnet18.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "ferrite/examples/common/dataset.h"
#include "ferrite/examples/common/training_options.h"

namespace examples::resnet18 {

struct Options : TrainingOptions {
  // ---- The network and its images
  std::string stem = "auto";  ///< auto, standard (7x7, pooling) or small (3x3)
  std::int64_t width = 64;
  bool channels_last = false;
  ImageOptions images = {.augment = true};
  std::string freeze;  ///< pattern of the parameters that are not trained; empty: none

  // ---- Training
  std::string schedule = "cosine";  ///< after the warm-up: cosine, step or constant
  double warmup_epochs = 0;
  double momentum = 0.9, weight_decay = 5e-4;
  double label_smoothing = 0;
  double mixup = 0, cutmix = 0;  ///< alphas; 0: none. With both, one of them for each batch
  double max_grad_norm = 0;      ///< 0: gradients are not clipped
  std::int64_t accumulate = 1;
  double ema = 0;               ///< decay of the averaged weights; 0: no averages
  double max_loss_factor = 10;  ///< 0: only steps with a loss that is not finite are skipped

  // ---- Mixed precision
  std::string opt_level = "O0";
  std::string half = "float16";
  std::optional<bool> keep_batchnorm_fp32;
  std::string loss_scale;  ///< a number or "dynamic"; empty: the default of the level

  // ---- Several processes
  bool ddp = false;
  bool sync_bn = false;                ///< norms by the statistics of all processes
  std::string backend;                 ///< nccl or gloo; empty: by the device
  std::string scale_lr = "none";       ///< scaling with the images per step: none, linear or sqrt
  std::int64_t base_batch_size = 128;  ///< images per step that --lr is for

  // ---- Checkpoints and messages
  bool resume = false;
  std::int64_t save_every = 0;  ///< steps; 0: after each epoch only
  int keep = 3;
  std::int64_t print_freq = 50;
};

/// Parses the command line and sets defaults that depend on other options. After --help or an
/// error, prints the text and sets `exit_code`. ValueError for contradictory options.
Options parse_options(int argc, char** argv, std::optional<int>& exit_code);

/// The options that determine the result, for reports and checkpoints: all except device, threads,
/// workers, folders and the intervals of printing and saving.
nlohmann::json configuration(const Options& options);

/// JSON in a checkpoint, which may be damaged: null if it is not JSON. ValueError if it is nested
/// deeper than 16 times. (dump() takes a stack as deep as the nesting.)
nlohmann::json json_of_checkpoint(const std::string& text);

/// Throws ValueError, which names the options, if `mine` differs from `text`, the configuration of
/// the run that is to be continued.
void check_same_configuration(const nlohmann::json& mine, const std::string& text);

}  // namespace examples::resnet18
