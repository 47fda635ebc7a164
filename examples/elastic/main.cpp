// Trains LeNet with several processes, any of which may be killed at any time: the launcher then
// restarts all of them, they continue from the last snapshot, and end with the same weights, bit
// for bit, as an undisturbed run.
//   ferrite-run --standalone --nproc-per-node=2 --max-restarts=10 elastic
//   ferrite-run --standalone --nproc-per-node=2 --max-restarts=100 elastic --kill-every 200
#include <ferrite/ferrite.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numbers>
#include <optional>
#include <random>

#include "ferrite/core/terminal.h"
#include "ferrite/examples/common/dataset.h"
#include "ferrite/examples/common/folder.h"
#include "ferrite/examples/common/lines.h"
#include "ferrite/examples/common/ranks.h"
#include "ferrite/examples/elastic/options.h"

namespace {

using namespace ferrite;

/// A loader of this rank's share: for training, of a shuffled order; for evaluation, of the data
/// set in order, without duplicates.
data::DataLoader<> loader_of(const std::shared_ptr<data::Dataset>& dataset, bool training,
                             const examples::elastic::Options& options, const Device& device) {
  return data::DataLoader(dataset, {.batch_size = *options.batch_size,
                                    .sampler = data::DistributedSampler(
                                        dataset->size(), {.rank = parallel::get_rank(),
                                                          .world_size = parallel::get_world_size(),
                                                          .shuffle = training,
                                                          .seed = options.seed,
                                                          .pad = training}),
                                    .num_workers = options.workers,
                                    .seed = options.seed,
                                    .device = device});
}

class Run {
 public:
  Run(const examples::elastic::Options& options, const Device& device);
  void train();

 private:
  void resume();
  void save();
  void one_epoch();
  void step(const Tensor& images, const Tensor& labels);
  void evaluate();

  const examples::elastic::Options& options_;
  const bool first_ = parallel::get_rank() == 0;  // it prints, and writes snapshots
  const Device device_;
  examples::Splits data_;
  data::DataLoader<> train_loader_, test_loader_;
  nn::LeNet5 model_;
  std::optional<parallel::DistributedDataParallel<nn::LeNet5>> ddp_;
  std::optional<optim::SGD> sgd_;

  // The state in a snapshot besides the model, the optimizer and the position in the data.
  std::int64_t steps_ = 0;
  std::int64_t total_steps_;
  data::TrainingState state_;
  data::CheckpointManager checkpoints_;

  std::int64_t resumed_at_ = 0;
  metrics::Timer timer_;
  std::optional<metrics::ProgressBar> bar_;

  std::mt19937_64 fate_{std::random_device()()};  // of --kill-every
};

Run::Run(const examples::elastic::Options& options, const Device& device)
    : options_(options),
      device_(device),
      data_(examples::open_dataset(options)),
      train_loader_(loader_of(data_.train, true, options, device)),
      test_loader_(loader_of(data_.test, false, options, device)),
      total_steps_(*options.epochs * train_loader_.size()),
      checkpoints_(options.checkpoint_dir, {.keep = options.keep}) {
  if (options.max_steps > 0) total_steps_ = std::min(total_steps_, options.max_steps);
  model_.to(device);
  // All steps are then equal, including the first one after a restart.
  ddp_.emplace(model_, parallel::DDPOptions{.rebuild_buckets = false});
  sgd_.emplace(ddp_->parameters(), optim::SGDOptions{.lr = *options.lr, .momentum = 0.9});
  state_.add("model", model_).add("optimizer", *sgd_).add("loader", train_loader_);
  state_.add_value("steps", steps_);
}

/// Rank 0 finds the newest complete snapshot, and all ranks load it.
void Run::resume() {
  std::int64_t step = -1;
  if (first_) {
    if (const auto report = checkpoints_.resume(state_, {.fall_back = true})) {
      step = report->step;
      fmt::print("{}\n", report->str());
    }
  }
  const Tensor agreed = tensor({step}).to(device_);
  parallel::broadcast(agreed);
  step = agreed.item<std::int64_t>();
  if (!first_ && step >= 0) checkpoints_.resume(state_, {.step = step});
  // Without the barrier, rank 0 could replace a snapshot that others still read.
  parallel::barrier();
}

void Run::save() {
  if (first_) checkpoints_.save(steps_, state_);
}

void Run::step(const Tensor& images, const Tensor& labels) {
  const double progress = static_cast<double>(steps_) / static_cast<double>(total_steps_);
  sgd_->set_lr(0.5 * *options_.lr * (1 + std::cos(std::numbers::pi * progress)));
  const Tensor loss = cross_entropy((*ddp_)(images), labels);
  sgd_->zero_grad();
  loss.backward();
  sgd_->step();
  ++steps_;
  if (!first_) return;
  const std::int64_t done = steps_ - resumed_at_;
  if (steps_ % options_.print_freq == 0 || steps_ == total_steps_)
    bar_->finish(metrics::train_line(metrics::progress_label("step", steps_, total_steps_),
                                     loss.item<float>()));
  else if (bar_->redraws() && bar_->due(done))
    bar_->update(done, fmt::format("loss {:.4f}", loss.item<float>()));
}

void Run::one_epoch() {
  const std::int64_t chances = options_.kill_every * parallel::get_world_size();
  for (auto& [images, labels] : train_loader_) {
    step(images, labels);
    if (steps_ % options_.save_every == 0) save();
    if (chances > 0 && fate_() % static_cast<std::uint64_t>(chances) == 0) raise(SIGKILL);
    if (steps_ == total_steps_) return;
  }
}

void Run::evaluate() {
  const NoGradGuard guard;
  model_.eval();
  metrics::Accuracy accuracy(device_);
  metrics::DeviceAverageMeter mean_loss(device_);
  for (auto& [images, labels] : test_loader_) {
    const Tensor logits = model_(images);
    accuracy.update(logits, labels);
    mean_loss.update(cross_entropy(logits, labels), labels.numel());
  }
  parallel::all_reduce_metrics(accuracy, mean_loss);
  if (!first_) return;
  fmt::print("{}\n\n", metrics::test_line(metrics::progress_label("step", steps_, total_steps_),
                                          mean_loss.value().avg(), accuracy.value()));
  fmt::print("{}\n", examples::finished_line(accuracy.value(), steps_, timer_.seconds()));
}

void Run::train() {
  resume();
  if (first_)
    fmt::print("{} on {} with {}: {} train and {} test images, steps {} to {}\n", options_.dataset,
               terminal::counted(parallel::get_world_size(), "rank"),
               parallel::default_group()->backend(), data_.train->size(), data_.test->size(),
               steps_, total_steps_);
  std::fflush(stdout);
  resumed_at_ = steps_;
  timer_.reset();
  bar_.emplace("training", total_steps_ - steps_);
  while (steps_ < total_steps_) one_epoch();
  evaluate();
  if (!first_) return;
  // A run that is killed after its last step repeats that step.
  const auto path = std::filesystem::path(options_.checkpoint_dir) / "final.safetensors";
  ferrite::save(model_.state_dict(), path);
  checkpoints_.wait();
  fmt::print("weights saved in {}\n", path.string());
}

int elastic(int argc, char** argv) {
  int exit_code = 0;
  const auto options = examples::elastic::parse_options(argc, argv, exit_code);
  if (!options) return exit_code;
  Device device = examples::apply(*options);
  if (device.is_cuda()) device = examples::device_of_rank("cuda");
  examples::make_writable_folder(options->checkpoint_dir, "--checkpoint-dir");
  parallel::init_process_group(device.is_cuda() ? "" : "gloo",
                               {.timeout = std::chrono::minutes(2), .device = device});
  Run(*options, device).train();
  parallel::destroy_process_group();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(elastic, argc, argv); }
