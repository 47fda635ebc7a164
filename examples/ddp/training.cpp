#include "ferrite/examples/ddp/training.h"

#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "ferrite/core/terminal.h"
#include "ferrite/examples/common/dataset.h"
#include "ferrite/examples/common/folder.h"
#include "ferrite/examples/common/lines.h"
#include "ferrite/examples/common/optimizers.h"
#include "ferrite/examples/common/ranks.h"
#include "ferrite/examples/common/report.h"

namespace examples::ddp {

using namespace ferrite;

namespace {

/// Two convolutions with norms, and a linear layer, for digits.
class ConvNet : public nn::Cloneable<ConvNet> {
 public:
  explicit ConvNet(std::int64_t classes) : fc_(7 * 7 * 32, classes) {
    register_module("layer1", layer1_);
    register_module("layer2", layer2_);
    register_module("fc", fc_);
  }
  Tensor forward(const Tensor& x) override { return fc_(layer2_(layer1_(x)).flatten(1)); }

 private:
  static nn::Sequential layer(std::int64_t in, std::int64_t out) {
    return nn::Sequential(nn::Conv2d(in, out, 5, {.padding = 2}), nn::BatchNorm2d(out), nn::ReLU(),
                          nn::MaxPool2d(2));
  }

  nn::Sequential layer1_ = layer(1, 16), layer2_ = layer(16, 32);
  nn::Linear fc_;
};

/// This rank's share of a data set. Every rank gets equally many training samples, and each test
/// sample is processed once.
data::DataLoader<> share_of(const std::shared_ptr<data::Dataset>& set, data::Split split,
                            const Options& options, const Device& device) {
  const bool training = split == data::Split::train;
  const data::DistributedSamplerOptions share{.rank = parallel::get_rank(),
                                              .world_size = parallel::get_world_size(),
                                              .shuffle = training,
                                              .seed = options.seed,
                                              .pad = training};
  return data::DataLoader(set, {.batch_size = *options.batch_size,
                                .sampler = data::DistributedSampler(set->size(), share),
                                .num_workers = options.workers,
                                .seed = options.seed,
                                .device = device});
}

double learning_rate(const Options& options) {
  const std::int64_t batch = *options.batch_size;
  return optim::scale_lr(*options.lr, batch, batch * parallel::get_world_size(),
                         optim::lr_scaling(options.scale_lr));
}

class Run {
 public:
  Run(const Options& options, const Device& device)
      : options_(options),
        device_(device),
        report_(writes_ ? report_files(options) : ReportFiles{}),
        data_(open_dataset(options)),
        train_loader_(share_of(data_.train, data::Split::train, options, device)),
        test_loader_(share_of(data_.test, data::Split::test, options, device)),
        net_(static_cast<std::int64_t>(data_.classes.size())),
        loss_(device) {
    if (options.sync_bn) parallel::convert_sync_batchnorm(net_);
    net_.to(device);
    ddp_ = std::make_unique<DDP>(net_, parallel::DDPOptions{.static_graph = options.graph});
    optimizer_ = make_optimizer(*options.optimizer, ddp_->parameters(),
                                {.lr = learning_rate(options), .momentum = 0.9});
    if (options.graph)
      graphed_ = std::make_unique<nn::GraphedStep<Step>>(
          net_, [this](const Tensor& images, const Tensor& labels) { step(images, labels); });
  }

  void train() {
    describe();
    const metrics::Timer timer;
    double accuracy = 0;
    for (std::int64_t epoch = 1; epoch <= *options_.epochs && !finished(); ++epoch) {
      const std::string label = metrics::progress_label("epoch", epoch, *options_.epochs);
      const double train_loss = one_epoch(label);
      // Each rank has its own running statistics: those of rank 0 are tested and saved.
      if (!options_.sync_bn) share_buffers(net_);
      accuracy = evaluate(epoch, label, train_loss);
    }
    fmt::print("\n{}\n", finished_line(accuracy, steps_, timer.seconds()));
    if (!writes_ || options_.checkpoint_dir.empty()) return;
    const auto path = std::filesystem::path(options_.checkpoint_dir) / "final.safetensors";
    save(net_.state_dict(), path);
    fmt::print("weights saved in {}\n", path.string());
  }

 private:
  using DDP = parallel::DistributedDataParallel<ConvNet>;
  using Step = std::function<void(const Tensor&, const Tensor&)>;

  bool finished() const { return options_.max_steps > 0 && steps_ >= options_.max_steps; }

  void describe() {
    if (writes_ && !options_.checkpoint_dir.empty())
      make_writable_folder(options_.checkpoint_dir, "--checkpoint-dir");
    const int world_size = parallel::get_world_size();
    const std::string backend(parallel::default_group()->backend());
    fmt::print("{}: {} train and {} test images\n", options_.dataset, data_.train->size(),
               data_.test->size());
    fmt::print("{}, backend {}, {} images per step each; rank 0 on {} with {}\n",
               terminal::counted(world_size, "process", "processes"), backend, *options_.batch_size,
               device_.str(), terminal::counted(num_threads(), "thread"));
    report_.set("configuration", {{"dataset", options_.dataset},
                                  {"world_size", world_size},
                                  {"backend", backend},
                                  {"batch_size", *options_.batch_size},
                                  {"optimizer", *options_.optimizer},
                                  {"lr", optimizer_->lr()},
                                  {"sync_bn", options_.sync_bn},
                                  {"seed", options_.seed},
                                  {"device", device_.str()}});
  }

  /// Gradients are averaged over all ranks while backward runs.
  void step(const Tensor& images, const Tensor& labels) {
    const Tensor loss = cross_entropy((*ddp_)(images), labels);
    optimizer_->zero_grad();
    loss.backward();
    optimizer_->step();
    loss_.update(loss, labels.numel());
  }

  /// The mean loss over all ranks.
  double one_epoch(const std::string& label) {
    net_.train();
    loss_.reset();
    std::int64_t steps = train_loader_.size(), done = 0;
    if (options_.max_steps > 0) steps = std::min(steps, options_.max_steps - steps_);
    metrics::ProgressBar bar(label, steps);
    metrics::Throughput speed;
    const auto images_per_second = [&] { return speed.rate() * parallel::get_world_size(); };
    for (auto& [images, labels] : train_loader_) {
      if (graphed_)
        (*graphed_)(images, labels);
      else
        step(images, labels);
      ++steps_;
      speed.update(labels.numel());
      if (++done == steps) break;
      if (writes_ && bar.due(done))
        bar.update(done, fmt::format("loss {:.4f} {:.0f} images/s", loss_.value().avg(),
                                     images_per_second()));
    }
    parallel::all_reduce_metrics(loss_);
    const double loss = loss_.value().avg();
    bar.finish(
        metrics::train_line(label, loss, {}, fmt::format("{:.0f} images/s", images_per_second())));
    return loss;
  }

  /// The accuracy on the test images.
  double evaluate(std::int64_t epoch, const std::string& label, double train_loss) {
    const NoGradGuard guard;
    net_.eval();
    metrics::DeviceAverageMeter loss(device_);
    metrics::Accuracy accuracy(device_);
    // Uses net_ instead of ddp_, because ranks may have different numbers of batches.
    for (auto& [images, labels] : test_loader_) {
      const Tensor logits = net_(images);
      loss.update(cross_entropy(logits, labels), labels.numel());
      accuracy.update(logits, labels);
    }
    parallel::all_reduce_metrics(loss, accuracy);
    const double test_loss = loss.value().avg();
    fmt::print("{}\n", metrics::test_line(label, test_loss, accuracy.value()));
    std::fflush(stdout);
    report_.add_epoch({{"epoch", epoch},
                       {"step", steps_},
                       {"train_loss", number(train_loss)},
                       {"test_loss", number(test_loss)},
                       {"test_accuracy", accuracy.value()}});
    return accuracy.value();
  }

  const Options& options_;
  const Device device_;
  const bool writes_ = parallel::get_rank() == 0;
  Report report_;
  Splits data_;
  data::DataLoader<> train_loader_, test_loader_;
  ConvNet net_;
  std::unique_ptr<DDP> ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  metrics::DeviceAverageMeter loss_;
  std::unique_ptr<nn::GraphedStep<Step>> graphed_;  // null without --graph
  std::int64_t steps_ = 0;
};

}  // namespace

void train(const Options& options, const Device& device) { Run(options, device).train(); }

}  // namespace examples::ddp
