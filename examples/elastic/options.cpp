#include "ferrite/examples/elastic/options.h"

#include "ferrite/examples/common/command_line.h"

namespace examples::elastic {

std::optional<Options> parse_options(int argc, char** argv, int& exit_code) {
  Options o;
  o.dataset = "synthetic-digits";
  o.epochs = 5;
  o.batch_size = 64;
  o.lr = 0.05;
  o.checkpoint_dir = "runs/elastic";
  const auto positive = whole<std::int64_t>(1);
  CommandLine app("Trains LeNet with several processes, any of which may be killed at any time.",
                  {"ferrite-run --standalone --nproc-per-node=2 --max-restarts=10 elastic"});
  app.topic("Data and training");
  app.add_option("--dataset", o.dataset, "data set to train on")
      .check(one_of({"synthetic-digits", "mnist", "fashion-mnist"}))
      .capture_default_str();
  app.add_option("--data", o.data,
                 "folder that holds the data set (default $FERRITE_DATA, else ./data-sets)");
  app.add_option("--epochs", o.epochs, "passes over the training set")
      .check(positive)
      .capture_default_str();
  app.add_option("--max-steps", o.max_steps, "stop after this many steps (0: no limit)")
      .check(whole<std::int64_t>(0));
  app.add_option("--batch-size", o.batch_size, "images per step and rank")
      .check(positive)
      .capture_default_str();
  app.add_option("--lr", o.lr, "initial learning rate").check(above_zero()).capture_default_str();
  app.topic("Devices and threads");
  app.add_option("--device", o.device,
                 "cuda: each rank uses the device of its LOCAL_RANK; auto: cuda if there is a CUDA "
                 "device")
      .check(one_of({"auto", "cpu", "cuda"}))
      .capture_default_str();
  app.add_option("--workers", o.workers, "data loading threads (0: the training thread)")
      .check(whole(0, 256))
      .capture_default_str();
  app.add_option("--seed", o.seed, "seed of weights and shuffling")
      .check(whole<std::uint64_t>(0))
      .capture_default_str();
  app.topic("Checkpoints and output");
  app.add_option("--checkpoint-dir", o.checkpoint_dir,
                 "folder for snapshots and final.safetensors, shared by all ranks")
      .capture_default_str();
  app.add_option("--save-every", o.save_every, "steps between snapshots")
      .check(positive)
      .capture_default_str();
  app.add_option("--keep", o.keep, "number of snapshots to keep")
      .check(whole(1))
      .capture_default_str();
  app.add_option("--print-freq", o.print_freq, "steps between progress lines")
      .check(positive)
      .capture_default_str();
  app.add_option(
         "--kill-every", o.kill_every,
         "for tests: a random rank kills itself every this many steps, on average (0: never)")
      .check(whole<std::int64_t>(0));
  if (const auto status = app.parse(argc, argv)) {
    exit_code = *status;
    return std::nullopt;
  }
  return o;
}

}  // namespace examples::elastic
