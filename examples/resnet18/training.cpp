#include "ferrite/examples/resnet18/training.h"

#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <cmath>

#include "ferrite/core/terminal.h"
#include "ferrite/examples/common/device_use.h"
#include "ferrite/examples/common/profiling.h"
#include "ferrite/examples/resnet18/model.h"

namespace examples::resnet18 {

using namespace ferrite;

namespace {

/// The number of consecutive skipped steps after which a run fails.
constexpr std::int64_t kMaxSkippedInARow = 200;

/// --schedule and --warmup-epochs, in steps.
std::unique_ptr<optim::LRScheduler> make_scheduler(optim::Optimizer& optimizer,
                                                   const Options& options, std::int64_t total_steps,
                                                   std::int64_t warmup_steps) {
  const std::int64_t rest = std::max<std::int64_t>(total_steps - warmup_steps, 1);
  std::shared_ptr<optim::LRScheduler> after;  // none: constant
  if (options.schedule == "cosine")
    after = std::make_shared<optim::CosineAnnealingLR>(
        optimizer, optim::CosineAnnealingLROptions{.T_max = rest});
  if (options.schedule == "step")
    after = std::make_shared<optim::StepLR>(optimizer,
                                            optim::StepLROptions{.step_size = (rest + 2) / 3});
  return std::make_unique<optim::WarmupLR>(optimizer, after,
                                           optim::WarmupLROptions{.warmup_steps = warmup_steps});
}

/// The number of ranks, by which this rank's throughput is multiplied.
double ranks() { return parallel::get_world_size(); }

}  // namespace

std::string epoch_label(std::int64_t epoch, const Options& options) {
  return metrics::progress_label("epoch", epoch, *options.epochs);
}

Trainer::Trainer(Training training, const Options& options, std::int64_t steps_an_epoch,
                 std::int64_t classes)
    : training_(std::move(training)),
      options_(options),
      steps_an_epoch_(steps_an_epoch),
      total_steps_(options.max_steps > 0
                       ? std::min(options.max_steps, *options.epochs * steps_an_epoch)
                       : *options.epochs * steps_an_epoch),
      warmup_steps_(std::llround(options.warmup_epochs * static_cast<double>(steps_an_epoch))),
      classes_(classes),
      scheduler_(make_scheduler(training_.optimizer, options, total_steps_, warmup_steps_)),
      guard_(training_.model, training_.device, options.max_loss_factor),
      loss_(training_.device),
      accuracy_(training_.device),
      gathered_(training_.device),
      step_([this](const Tensor& images, const Tensor& labels) { step(images, labels); }) {
  profile_ = make_profile(options.profile, training_.model);
  if (options.graph) graphed_ = std::make_unique<nn::GraphedStep<Step>>(training_.model, step_);
}

const nn::GraphedStepStats* Trainer::graph_stats() const {
  return graphed_ ? &graphed_->stats() : nullptr;
}

std::int64_t Trainer::last_epoch() const {
  return (total_steps_ + steps_an_epoch_ - 1) / steps_an_epoch_;
}

void Trainer::add_to(data::TrainingState& state) {
  state.add("scheduler", *scheduler_)
      .add("amp", training_.amp)
      .add("guard", guard_)
      .add("loss", loss_)
      .add("accuracy", gathered_);
  if (training_.ema) state.add("ema", *training_.ema);
  state.add_value("steps", steps_).add_value("skipped", skipped_);
}

/// Gathers the counts of all ranks.
void Trainer::gather() {
  gathered_.load_state_dict(accuracy_.state_dict());
  parallel::all_reduce_metrics(gathered_);
}

void Trainer::after_load() {
  accuracy_.reset();
  if (parallel::get_rank() == 0) accuracy_.load_state_dict(gathered_.state_dict());
}

Tensor Trainer::forward(const Tensor& images, const Tensor& labels) {
  nn::Module& model = training_.ddp ? *training_.ddp : training_.model;
  const Tensor logits = model(options_.channels_last ? images.to(kChannelsLast) : images);
  const Tensor loss = cross_entropy(logits, labels, {.label_smoothing = options_.label_smoothing});
  // For mixed images, the class with the larger share counts.
  accuracy_.update(logits.detach(), labels.dim() == 2 ? labels.argmax(1) : labels);
  return loss;
}

/// The batch after --mixup or --cutmix, as a function of the seed, the step and the rank.
MixedBatch Trainer::mixed(const data::Batch& batch) const {
  if (options_.mixup == 0 && options_.cutmix == 0) return {batch.inputs, batch.labels};
  const auto number =
      static_cast<std::uint64_t>(steps_ * parallel::get_world_size() + parallel::get_rank());
  Generator random(options_.seed * 0x9E3779B97F4A7C15 + number);
  const bool cuts = options_.mixup == 0 || (options_.cutmix > 0 && random.next_below(2) == 1);
  const MixOptions mix{.num_classes = classes_, .alpha = cuts ? options_.cutmix : options_.mixup};
  return cuts ? CutMix(mix)(batch.inputs, batch.labels, random)
              : MixUp(mix)(batch.inputs, batch.labels, random);
}

/// Forward and backward of a part of a step; the gradients of all parts add up to those of the
/// step.
Tensor Trainer::pass(const Tensor& images, const Tensor& labels, double share) {
  Tensor loss = forward(images, labels);
  if (share < 1) loss = loss * share;
  training_.amp.scale(loss).backward();
  return loss.detach();
}

/// The model's parameters; those with a float32 master copy are replaced by it.
std::vector<Tensor> Trainer::master_weights() const {
  const std::vector<Tensor> trained = training_.optimizer.parameters();
  const std::vector<Tensor> masters = training_.optimizer.master_parameters();
  std::vector<Tensor> weights = training_.model.parameters();
  std::size_t i = 0;  // trained parameters are in the order of the model
  for (Tensor& weight : weights)
    if (i < trained.size() && weight.is_same(trained[i])) weight = masters[i++];
  return weights;
}

/// The work of a step, which may be captured: nothing here may wait for the device.
void Trainer::step(const Tensor& images, const Tensor& labels) {
  const std::int64_t n = images.size(0);
  guard_.begin();
  training_.amp.zero_grad();
  Tensor mean;
  for (std::int64_t at = 0; at < n; at += *options_.batch_size) {
    const std::int64_t count = std::min(*options_.batch_size, n - at);
    const auto run = [&] {
      return pass(images.narrow(0, at, count), labels.narrow(0, at, count),
                  static_cast<double>(count) / static_cast<double>(n));
    };
    // Ranks average the gradients of all parts once, with the last part.
    const Tensor loss = training_.ddp && at + count < n ? [&] {
      const auto local = training_.ddp->no_sync();
      return run();
    }() : run();
    mean = mean.defined() ? mean + loss : loss;
  }
  if (training_.ddp) {
    // Ranks have batches of equal size, and must agree on which steps to skip.
    mean = mean.clone();
    parallel::all_reduce(mean, parallel::ReduceOp::avg);
  }
  const Tensor bad = guard_.check(mean);
  if (options_.max_grad_norm > 0)
    optim::clip_grad_norm_(training_.amp.master_parameters(), options_.max_grad_norm);
  training_.amp.step(training_.optimizer, bad);
  guard_.end(bad);
  if (training_.ema) training_.ema->update_parameters(training_.model, master_weights());
  // A skipped step counts as the running mean.
  loss_.update(where(gt(bad, 0), guard_.mean(), mean), n);
}

void Trainer::report_skipped(metrics::ProgressBar& bar, const std::string& label) {
  if (const std::string overflows = training_.amp.overflow_message(); !overflows.empty())
    bar.finish(fmt::format("{}: {}", label, overflows));
  const LossGuard::Skipped now = guard_.skipped();
  if (now.steps > skipped_)
    bar.finish(fmt::format(
        "{}: {} skipped up to step {}: their last loss was {:.4g}, the running mean is {:.4g}",
        label, terminal::counted(now.steps - skipped_, "step"), steps_, now.loss, now.mean));
  skipped_ = now.steps;
  FERRITE_CHECK(
      now.in_a_row < kMaxSkippedInARow, ValueError, "resnet18",
      "the last {} steps were skipped because their loss had exploded: lower --lr, or use "
      "--warmup-epochs or --max-grad-norm",
      now.in_a_row);
}

Metrics Trainer::epoch(std::int64_t epoch, data::DataLoader<>& loader,
                       const std::function<void()>& after_step) {
  const std::string label = epoch_label(epoch, options_);
  const std::int64_t before = (epoch - 1) * steps_an_epoch_;  // steps before this epoch
  metrics::ProgressBar bar(label, std::min(steps_an_epoch_, total_steps_ - before));
  set_training(training_.model);
  if (steps_ == before) {  // otherwise the epoch was resumed in the middle
    loss_.reset();
    accuracy_.reset();
  }
  metrics::Throughput speed;
  const double waited = loader.seconds_waited();
  const auto one_step = [&](const data::Batch& batch) {
    const auto [images, labels] = mixed(batch);
    if (graphed_)
      (*graphed_)(images, labels);
    else
      step_(images, labels);
    scheduler_->step();
    ++steps_;
    if (profile_) profile_->step();
    speed.update(batch.size());
    after_step();
    if ((steps_ - before) % options_.print_freq == 0) show(bar, label, steps_ - before, speed);
  };
  if (!finished())
    for (const data::Batch& batch : loader) {
      one_step(batch);
      if (steps_ == total_steps_ && steps_ - before < steps_an_epoch_) break;
    }
  gather();
  const Metrics m{.loss = loss_.value().avg(),
                  .accuracy = gathered_.value(),
                  .images_per_second = speed.rate() * ranks(),
                  .waiting_for_data = (loader.seconds_waited() - waited) / speed.seconds()};
  report_skipped(bar, label);
  const std::string use = device_use(training_.device);
  bar.finish(
      metrics::train_line(label, m.loss, m.accuracy,
                          fmt::format("lr {:.2e}  {:.0f} images/s, waiting for data {:.1f} %{}{}",
                                      training_.optimizer.lr(), m.images_per_second,
                                      100 * m.waiting_for_data, use.empty() ? "" : "  ", use)));
  return m;
}

/// Shows the progress line. Within an epoch, only this waits for the device.
void Trainer::show(metrics::ProgressBar& bar, const std::string& label, std::int64_t done,
                   const metrics::Throughput& speed) {
  const metrics::AverageMeter loss = loss_.value();
  report_skipped(bar, label);
  bar.update(done,
             fmt::format("loss {:.4f} ({:.4f}) accuracy {:.3f} lr {:.2e} {:.0f} images/s",
                         loss.val(), loss.avg(), accuracy_.value(), training_.optimizer.lr(),
                         speed.recent() * ranks()),
             device_use(training_.device));
}

Metrics evaluate(nn::Module& model, data::DataLoader<>& loader,
                 metrics::ConfusionMatrix* confusion) {
  const NoGradGuard guard;
  model.eval();
  const Device device = loader.options().device;
  metrics::DeviceAverageMeter loss(device);
  metrics::Accuracy accuracy(device);
  metrics::Throughput speed;
  for (auto& [images, labels] : loader) {
    const Tensor logits = model(images);
    loss.update(cross_entropy(logits, labels), labels.numel());
    accuracy.update(logits, labels);
    if (confusion) confusion->update(logits, labels);
    speed.update(labels.numel());
  }
  parallel::all_reduce_metrics(loss, accuracy);
  if (confusion) parallel::all_reduce_metrics(*confusion);
  const double mean = loss.value().avg();
  return {.loss = mean, .accuracy = accuracy.value(), .images_per_second = speed.rate() * ranks()};
}

}  // namespace examples::resnet18
