#include "ferrite/examples/resnet18/options.h"

#include "ferrite/core/checked_json.h"
#include "ferrite/core/error.h"
#include "ferrite/examples/common/command_line.h"
#include "ferrite/nn/models/registry.h"
#include "ferrite/parallel/comm/process_group.h"

namespace examples::resnet18 {

namespace {

/// Sets defaults that depend on other options.
void fill_in(Options& o) {
  const bool digits = o.dataset == "mnist" || o.dataset == "synthetic-digits";
  if (!o.optimizer) o.optimizer = "sgd";
  if (!o.lr) o.lr = *o.optimizer == "sgd" ? 0.1 : 1e-3;
  if (!o.batch_size) o.batch_size = 128;
  if (!o.epochs) o.epochs = digits ? 5 : o.dataset == "image-folder" ? 90 : 30;
  if (o.stem == "auto")
    o.stem = o.dataset == "image-folder" && o.images.image_size > 64 ? "standard" : "small";
}

void check(const Options& o) {
  const auto needs_folder = [&](bool given, const char* option) {
    FERRITE_CHECK(!given || !o.checkpoint_dir.empty(), ferrite::ValueError, option,
                  "needs --checkpoint-dir, the folder of the checkpoints");
  };
  needs_folder(o.resume, "--resume");
  needs_folder(o.save_every > 0, "--save-every");
  for (const auto& [given, option] :
       {std::pair(o.sync_bn, "--sync-bn"), std::pair(!o.backend.empty(), "--backend")})
    FERRITE_CHECK(!given || o.ddp, ferrite::ValueError, option, "needs --ddp");
  FERRITE_CHECK(o.dataset != "image-folder" || !o.data.empty(), ferrite::ValueError,
                "--dataset image-folder", "needs --data, the folder that holds train/ and val/");
}

void add_network(CommandLine& app, Options& o) {
  app.topic("Network");
  app.add_option("--stem", o.stem,
                 "first layers of ResNets, and patches of vision transformers; standard: 7x7 with "
                 "pooling; small: 3x3; auto: depends on the image size")
      .check(one_of({"auto", "standard", "small"}))
      .capture_default_str();
  app.add_option(
         "--width", o.width,
         "channels of the first stage of a ResNet; other networks are scaled by a 64th of it")
      .check(whole<std::int64_t>(1, 1024))
      .capture_default_str();
  app.add_flag("--channels-last", o.channels_last, "use the NHWC layout for weights and images");
  app.add_option("--freeze", o.freeze,
                 "parameters to freeze, such as \"conv1,layer1,*.bn?.*\"; completely frozen norms "
                 "also keep their running statistics");
  app.topic("Images");
  app.add_flag("--augment,!--no-augment", o.images.augment,
               "augment the training images (default yes)");
  app.add_flag("--trivial-augment", o.images.trivial_augment,
               "also apply TrivialAugmentWide: one random operation of random strength per image");
  app.add_option("--random-erase", o.images.random_erase,
                 "probability of erasing a rectangle of a training image, such as 0.1")
      .check(between(0, 1));
  app.add_option("--image-size", o.images.image_size, "height and width of images from folders")
      .check(whole<std::int64_t>(1, 4096))
      .capture_default_str();
  app.add_flag("--gray", o.images.gray,
               "read images from folders with one channel instead of three");
}

void add_training(CommandLine& app, Options& o) {
  app.topic("Optimization");
  app.add_option(
         "--schedule", o.schedule,
         "learning rate schedule after the warm-up; cosine: to 0; step: divided by 10 after "
         "each third of the epochs")
      .check(one_of({"cosine", "step", "constant"}))
      .capture_default_str();
  app.add_option("--warmup-epochs", o.warmup_epochs,
                 "epochs of linear warm-up, updated at each step; may be fractional, such as 0.5")
      .check(at_least(0));
  app.add_option("--momentum", o.momentum, "momentum of sgd")
      .check(between(0, 1))
      .capture_default_str();
  app.add_option("--weight-decay", o.weight_decay, "weight decay")
      .check(at_least(0))
      .capture_default_str();
  app.add_option("--label-smoothing", o.label_smoothing, "label smoothing").check(between(0, 1));
  app.add_option("--mixup", o.mixup,
                 "MixUp: mix pairs of training images and their labels in proportions from Beta(A, "
                 "A), such as 0.2 (0: off); with --cutmix, each batch uses one of the two")
      .check(at_least(0));
  app.add_option("--cutmix", o.cutmix,
                 "CutMix: paste rectangles of other images into training images, with area shares "
                 "from Beta(A, A), such as 1 (0: off)")
      .check(at_least(0));
  app.add_option("--max-grad-norm", o.max_grad_norm, "clip gradients to this norm (0: no clipping)")
      .check(at_least(0));
  app.add_option("--accumulate", o.accumulate,
                 "batches whose gradients are accumulated per optimizer step")
      .check(whole<std::int64_t>(1))
      .capture_default_str();
  app.add_option("--ema", o.ema,
                 "also evaluate an exponential moving average of the weights with this decay, such "
                 "as 0.999 (0: none)")
      .check(between(0, 1));
  app.add_option("--max-loss-factor", o.max_loss_factor,
                 "skip steps whose loss exceeds its running mean by this factor (0: skip only "
                 "steps whose loss is not finite)")
      .check(at_least(0))
      .capture_default_str();
}

void add_precision(CommandLine& app, Options& o) {
  app.topic("Mixed precision");
  app.add_option("--opt-level", o.opt_level,
                 "mixed precision as in Apex: O0 float32, O1 chosen per operation, O2 16-bit model "
                 "with float32 master weights, O3 16-bit throughout")
      .check(one_of({"O0", "O1", "O2", "O3"}))
      .capture_default_str();
  app.add_option("--half", o.half, "16-bit type")
      .check(one_of({"float16", "bfloat16"}))
      .capture_default_str();
  app.add_option("--keep-batchnorm-fp32", o.keep_batchnorm_fp32, "overrides the opt level")
      .check(one_of({"true", "false"}));
  app.add_option("--loss-scale", o.loss_scale, "a number or \"dynamic\"; overrides the opt level");
}

void add_processes(CommandLine& app, Options& o) {
  app.topic("Processes");
  app.add_flag("--ddp", o.ddp,
               "train on several processes, started by ferrite-run, torchrun --no-python, mpirun "
               "or srun; --batch-size is per process");
  app.add_flag("--sync-bn", o.sync_bn, "normalize with the statistics of all processes");
  app.add_option("--backend", o.backend,
                 "communication between processes (default depends on the device)")
      .check(one_of({"nccl", "gloo"}));
  app.add_option("--scale-lr", o.scale_lr,
                 "scale the learning rate with the images per step, over all processes and "
                 "accumulated batches")
      .check(one_of({"none", "linear", "sqrt"}))
      .capture_default_str();
  app.add_option("--base-batch-size", o.base_batch_size,
                 "for --scale-lr: images per step for which --lr is given")
      .check(whole<std::int64_t>(1))
      .capture_default_str();
}

void add_checkpoints(CommandLine& app, Options& o) {
  app.topic("Checkpoints and output");
  app.add_flag("--resume", o.resume,
               "continue from the newest checkpoint in --checkpoint-dir, if there is one");
  app.add_option("--save-every", o.save_every,
                 "also save a checkpoint every this many steps, not only after each epoch")
      .check(whole<std::int64_t>(1));
  app.add_option("--keep", o.keep, "number of checkpoints to keep in addition to the best (0: all)")
      .check(whole<int>(0))
      .capture_default_str();
  app.add_option("--print-freq", o.print_freq, "steps between progress lines")
      .check(whole<std::int64_t>(1))
      .capture_default_str();
}

}  // namespace

Options parse_options(int argc, char** argv, std::optional<int>& exit_code) {
  Options options;
  CommandLine app(
      "Trains ResNets and other image networks with torchvision's names.",
      {"resnet18 --width 16 --epochs 2 --checkpoint-dir runs/digits --save-every 50",
       "resnet18 --width 16 --epochs 2 --checkpoint-dir runs/digits --save-every 50 --resume",
       "resnet18 --dataset image-folder --data my-images --model resnet50 --accumulate 4",
       "resnet18 --device cuda --graph --channels-last --opt-level O2 --ema 0.999"});
  add_training_options(app, options, ferrite::nn::image_model_names(),
                       {"synthetic-digits", "mnist", "fashion-mnist", "emnist-balanced",
                        "emnist-byclass", "emnist-bymerge", "emnist-letters", "emnist-digits",
                        "emnist-mnist", "cifar10", "cifar100", "svhn", "image-folder"});
  add_network(app, options);
  add_training(app, options);
  add_precision(app, options);
  add_processes(app, options);
  add_checkpoints(app, options);
  exit_code = app.parse(argc, argv);
  if (exit_code) return options;
  fill_in(options);
  check(options);
  return options;
}

nlohmann::json configuration(const Options& o) {
  return {{"dataset", o.dataset},
          {"augment", o.images.augment},
          {"trivial_augment", o.images.trivial_augment},
          {"random_erase", o.images.random_erase},
          {"image_size",
           o.dataset == "image-folder" ? nlohmann::json(o.images.image_size) : nlohmann::json()},
          {"model", o.model},
          {"stem", o.stem},
          {"width", o.width},
          {"freeze", o.freeze},
          {"epochs", *o.epochs},
          {"max_steps", o.max_steps},
          {"batch_size", *o.batch_size},
          {"accumulate", o.accumulate},
          {"optimizer", *o.optimizer},
          {"lr", *o.lr},
          {"momentum", o.momentum},
          {"weight_decay", o.weight_decay},
          {"schedule", o.schedule},
          {"warmup_epochs", o.warmup_epochs},
          {"label_smoothing", o.label_smoothing},
          {"mixup", o.mixup},
          {"cutmix", o.cutmix},
          {"max_grad_norm", o.max_grad_norm},
          {"max_loss_factor", o.max_loss_factor},
          {"ema", o.ema},
          {"opt_level", o.opt_level},
          {"half", o.half},
          {"keep_batchnorm_fp32",
           o.keep_batchnorm_fp32 ? nlohmann::json(*o.keep_batchnorm_fp32) : nlohmann::json()},
          {"loss_scale", o.loss_scale},
          {"channels_last", o.channels_last},
          {"world_size", ferrite::parallel::get_world_size()},
          {"sync_bn", o.sync_bn},
          {"scale_lr", o.scale_lr},
          {"base_batch_size",
           o.scale_lr != "none" ? nlohmann::json(o.base_batch_size) : nlohmann::json()},
          {"seed", o.seed}};
}

nlohmann::json json_of_checkpoint(const std::string& text) {
  const auto nest = [](int depth) {
    FERRITE_CHECK(depth <= 16, ferrite::ValueError, "--resume",
                  "expected JSON nested 16 times at most in the checkpoint");
  };
  try {
    return ferrite::detail::checked_json(text, nest, [](const std::string&, const auto&) {});
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

void check_same_configuration(const nlohmann::json& mine, const std::string& text) {
  const nlohmann::json saved = json_of_checkpoint(text);
  FERRITE_CHECK(saved.is_object(), ferrite::ValueError, "--resume",
                "the checkpoint was not written by this program");
  std::string different;
  for (const auto& [key, value] : mine.items())
    if (!saved.contains(key) || saved[key] != value)
      different += fmt::format("{}{} {} there, {} here", different.empty() ? "" : "; ", key,
                               saved.contains(key) ? saved[key].dump() : "absent", value.dump());
  FERRITE_CHECK(different.empty(), ferrite::ValueError, "--resume",
                "the checkpoint was written by a run with other options: {}", different);
}

}  // namespace examples::resnet18
