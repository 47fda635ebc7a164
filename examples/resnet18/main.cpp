// Trains ResNets and other networks on images:
//   resnet18 --dataset fashion-mnist --data DIR
//   resnet18 --checkpoint-dir runs/a --save-every 500        (and --resume, to continue)
//   resnet18 --dataset image-folder --data DIR --model resnet50 --warmup-epochs 5
//   resnet18 --model efficientnet_b0 --trivial-augment --mixup 0.2 --cutmix 1 --random-erase 0.1
//   resnet18 --device cuda --graph --channels-last --opt-level O2 --ema 0.999
//   ferrite-run --nproc-per-node 4 resnet18 --ddp --sync-bn --scale-lr linear --warmup-epochs 5
#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <optional>

#include "ferrite/core/terminal.h"
#include "ferrite/examples/common/dataset.h"
#include "ferrite/examples/common/device_use.h"
#include "ferrite/examples/common/folder.h"
#include "ferrite/examples/common/lines.h"
#include "ferrite/examples/common/optimizers.h"
#include "ferrite/examples/common/ranks.h"
#include "ferrite/examples/common/report.h"
#include "ferrite/examples/resnet18/model.h"
#include "ferrite/examples/resnet18/options.h"
#include "ferrite/examples/resnet18/training.h"

namespace {

using namespace ferrite;

/// A training run with its inputs and outputs.
class Run {
 public:
  Run(const examples::resnet18::Options& options, const Device& device);
  void train();

 private:
  void resume();
  void check_resumed_together() const;
  void save(std::optional<double> test_accuracy = {});
  void one_epoch();
  void finish(double seconds);
  void write_weights() const;
  examples::resnet18::Metrics evaluate(metrics::ConfusionMatrix* confusion = nullptr);
  nlohmann::json configuration() const;

  const examples::resnet18::Options& options_;
  const Device device_;
  const bool writes_ = parallel::get_rank() == 0;  // only this rank writes files
  examples::Report report_;
  examples::Splits data_;
  data::DataLoader<> train_loader_, test_loader_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::amp::Amp> amp_;
  std::unique_ptr<optim::AveragedModel> ema_;                 // null without --ema
  std::unique_ptr<parallel::DistributedDataParallel<>> ddp_;  // null without --ddp
  std::optional<examples::resnet18::Trainer> trainer_;
  metrics::ConfusionMatrix confusion_;

  // The state in a checkpoint besides that of the trainer.
  std::int64_t epoch_ = 1;
  std::string configuration_, history_;
  data::TrainingState state_;
  std::optional<data::CheckpointManager> checkpoints_;
};

data::DataLoaderOptions loading(const examples::resnet18::Options& options, const Device& device) {
  return {.batch_size = *options.batch_size,
          .num_workers = options.workers,
          .seed = options.seed,
          .device = device};
}

/// This rank's share: equally many training images per rank, and each test image once.
data::DistributedSampler share_of(const data::Dataset& set, data::Split split, std::uint64_t seed) {
  const bool training = split == data::Split::train;
  return data::DistributedSampler(set.size(), {.rank = parallel::get_rank(),
                                               .world_size = parallel::get_world_size(),
                                               .shuffle = training,
                                               .seed = seed,
                                               .pad = training});
}

data::DataLoader<> make_loader(const std::shared_ptr<data::Dataset>& set, data::Split split,
                               const examples::resnet18::Options& options, const Device& device) {
  data::DataLoaderOptions loader = loading(options, device);
  if (split == data::Split::train) loader.batch_size *= options.accumulate;
  if (options.ddp)
    loader.sampler = share_of(*set, split, options.seed);
  else
    loader.shuffle = split == data::Split::train;
  return data::DataLoader(set, loader);
}

double learning_rate(const examples::resnet18::Options& o) {
  return optim::scale_lr(*o.lr, o.base_batch_size,
                         *o.batch_size * o.accumulate * parallel::get_world_size(),
                         optim::lr_scaling(o.scale_lr));
}

Run::Run(const examples::resnet18::Options& options, const Device& device)
    : options_(options),
      device_(device),
      report_(writes_ ? examples::report_files(options) : examples::ReportFiles{}),
      data_(examples::open_dataset(options, options.images)),
      train_loader_(make_loader(data_.train, data::Split::train, options, device)),
      test_loader_(make_loader(data_.test, data::Split::test, options, device)),
      confusion_(static_cast<std::int64_t>(data_.classes.size()), device) {
  model_ = examples::resnet18::make_model(options, data_.train->get(0).input.shape(),
                                          static_cast<std::int64_t>(data_.classes.size()));
  if (!options.freeze.empty()) model_->requires_grad_(false, options.freeze);
  model_->to(device);
  if (options.channels_last) model_->to(kChannelsLast);
  optimizer_ = examples::make_optimizer(*options.optimizer, examples::resnet18::trainable(*model_),
                                        {.lr = learning_rate(options),
                                         .momentum = options.momentum,
                                         .weight_decay = options.weight_decay});
  amp_.emplace(
      optim::amp::initialize(*model_, *optimizer_, examples::resnet18::precision(options)));
  if (options.ema > 0)
    ema_ = std::make_unique<optim::AveragedModel>(
        *model_, optim::AveragedModelOptions{.decay = options.ema, .warmup = true});
  if (options.sync_bn) parallel::convert_sync_batchnorm(*model_);
  if (options.ddp)
    ddp_ = std::make_unique<parallel::DistributedDataParallel<>>(
        *model_,
        parallel::DDPOptions{
            .static_graph = options.graph,
            .rebuild_buckets = false,  // the first step of a resumed run is then like all others
        });
  trainer_.emplace(
      examples::resnet18::Training{*model_, *optimizer_, *amp_, ema_.get(), ddp_.get(), device},
      options, train_loader_.size(), static_cast<std::int64_t>(data_.classes.size()));

  configuration_ = examples::resnet18::configuration(options).dump();
  state_.add("model", *model_).add("optimizer", *optimizer_).add("loader", train_loader_);
  state_.add_generators();
  trainer_->add_to(state_);
  state_.add_value("epoch", epoch_).add_value("history", history_);
  state_.add_value("configuration", configuration_);
}

nlohmann::json Run::configuration() const {
  nlohmann::json all = examples::resnet18::configuration(options_);
  all.update({{"device", device_.str()},
              {"threads", num_threads()},
              {"workers", options_.workers},
              {"parameters", model_->num_parameters()},
              {"trainable_parameters", model_->num_trainable_parameters()}});
  return all;
}

/// Continues from the newest checkpoint, if --resume is given and there is one.
void Run::resume() {
  checkpoints_.emplace(options_.checkpoint_dir,
                       data::CheckpointOptions{.keep = options_.keep, .keep_best = 1});
  FERRITE_CHECK(options_.resume || checkpoints_->list().empty(), ValueError, "--checkpoint-dir",
                "there already are checkpoints in '{}': --resume continues from them; a new run "
                "needs another folder",
                options_.checkpoint_dir);
  if (!options_.resume) return;
  for (const data::CheckpointInfo& checkpoint : checkpoints_->list())
    if (checkpoint.error.empty())
      examples::resnet18::check_same_configuration(
          examples::resnet18::configuration(options_),
          data::load_safetensors_metadata(checkpoint.path)["configuration"]);
  const auto report = checkpoints_->resume(state_, {.fall_back = true});
  check_resumed_together();
  if (!report) return;
  trainer_->after_load();
  if (!history_.empty()) {
    const nlohmann::json epochs = examples::resnet18::json_of_checkpoint(history_);
    FERRITE_CHECK(epochs.is_array(), ValueError, "--resume",
                  "the checkpoint's history is no list of epochs");
    report_.set_epochs(epochs);
  }
  fmt::print("{}\n", report->str());
}

/// The folder may not be shared with the other nodes.
void Run::check_resumed_together() const {
  const Tensor steps = tensor(trainer_->steps(), {.dtype = kInt64, .device = device_}).reshape({1});
  const std::vector<std::int64_t> all =
      parallel::all_gather_uneven(steps).to_vector<std::int64_t>();
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    FERRITE_CHECK(all[rank] == all[0], ValueError, "--resume",
                  "rank 0 continues from step {}, rank {} from step {}: --checkpoint-dir must be a "
                  "folder that all ranks share",
                  all[0], rank, all[rank]);
}

void Run::save(std::optional<double> test_accuracy) {
  if (!checkpoints_) return;
  trainer_->before_save();
  if (writes_) checkpoints_->save(trainer_->steps(), state_, test_accuracy);
}

/// Without --sync-bn each rank has its own running statistics: those of rank 0 are used.
examples::resnet18::Metrics Run::evaluate(metrics::ConfusionMatrix* confusion) {
  if (ddp_) examples::share_buffers(*model_);
  return examples::resnet18::evaluate(*model_, test_loader_, confusion);
}

void Run::one_epoch() {
  const examples::resnet18::Metrics train = trainer_->epoch(epoch_, train_loader_, [this] {
    if (options_.save_every > 0 && trainer_->steps() % options_.save_every == 0) save();
  });
  const bool last = epoch_ == trainer_->last_epoch();
  const examples::resnet18::Metrics test = evaluate(last ? &confusion_ : nullptr);
  const std::string label = examples::resnet18::epoch_label(epoch_, options_);
  fmt::print("{}\n", metrics::test_line(label, test.loss, test.accuracy));
  nlohmann::json row = {{"epoch", epoch_},
                        {"step", trainer_->steps()},
                        {"lr", optimizer_->lr()},
                        {"train_loss", examples::number(train.loss)},
                        {"train_accuracy", train.accuracy},
                        {"images_per_second", train.images_per_second},
                        {"waiting_for_data", train.waiting_for_data},
                        {"skipped", trainer_->skipped().steps},
                        {"test_loss", examples::number(test.loss)},
                        {"test_accuracy", test.accuracy}};
  if (ema_) {
    const optim::AveragedWeights averaged(*model_, *ema_);
    const examples::resnet18::Metrics ema = evaluate();
    fmt::print("{}\n", metrics::test_line(label, ema.loss, ema.accuracy, "with averaged weights"));
    row["ema_loss"] = examples::number(ema.loss);
    row["ema_accuracy"] = ema.accuracy;
  }
  if (device_.is_cuda()) row["device"] = examples::device_use_report(device_);
  report_.add_epoch(row);
  history_ = report_.epochs().dump();
  ++epoch_;
  save(test.accuracy);
}

void Run::train() {
  if (!options_.checkpoint_dir.empty()) {
    if (writes_) examples::make_writable_folder(options_.checkpoint_dir, "--checkpoint-dir");
    resume();
  }
  std::cout << *model_ << '\n';
  fmt::print("{} on {}: {} train and {} test images of {}, {}\n", options_.dataset, device_.str(),
             data_.train->size(), data_.test->size(),
             terminal::counted(std::ssize(data_.classes), "class", "classes"),
             terminal::counted(num_threads(), "thread"));
  if (ddp_)
    fmt::print("{}, backend {}, {} images per step each; learning rate {:g}\n",
               terminal::counted(parallel::get_world_size(), "process", "processes"),
               parallel::default_group()->backend(), *options_.batch_size * options_.accumulate,
               learning_rate(options_));
  report_.set("configuration", configuration());
  report_.write();
  const metrics::Timer total;
  while (epoch_ <= trainer_->last_epoch()) one_epoch();
  if (checkpoints_) checkpoints_->wait();
  finish(total.seconds());
}

void Run::finish(double seconds) {
  const double accuracy = report_.epochs().back().at("test_accuracy");
  fmt::print("\n{}\n", examples::finished_line(accuracy, trainer_->steps(), seconds));
  const metrics::ConfusionCounts counts = confusion_.value();
  if (counts.total() > 0) fmt::print("\n{}", terminal::with_heading(counts.str(data_.classes)));
  if (const nn::GraphedStepStats* stats = trainer_->graph_stats()) {
    fmt::print(
        "\ngraph: launched for {} steps; {} steps ran without it, to warm up or with other "
        "shapes\n",
        stats->replayed, stats->eager);
    report_.set(
        "graph",
        {{"replayed", stats->replayed}, {"eager", stats->eager}, {"captures", stats->captures}});
  }
  report_.set("test_accuracy", accuracy);
  report_.set("seconds", seconds);
  report_.write();
  if (!report_.files().curves.empty()) fmt::print("\ncurves in {}\n", report_.files().curves);
  if (writes_ && !options_.checkpoint_dir.empty()) write_weights();
}

void Run::write_weights() const {
  const auto write = [&](const char* name, const StateDict& weights) {
    const auto path = std::filesystem::path(options_.checkpoint_dir) / name;
    ferrite::save(weights, path, {{"configuration", configuration_}});
    fmt::print("weights saved in {}\n", path.string());
  };
  fmt::print("\n");
  write("final.safetensors", amp_->model_state_dict(*model_));
  if (ema_) write("final_ema.safetensors", ema_->module().state_dict());
}

int resnet18(int argc, char** argv) {
  std::optional<int> exit_code;
  examples::resnet18::Options options = examples::resnet18::parse_options(argc, argv, exit_code);
  if (exit_code) return *exit_code;
  if (options.ddp) options.device = examples::device_of_rank(options.device).str();
  const Device device = examples::apply(options);
  std::optional<examples::ProcessGroupScope> group;
  if (options.ddp) group.emplace(options.backend, device, options.graph);
  Run(options, device).train();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(resnet18, argc, argv); }
