#include "ferrite/examples/pipeline/training.h"

#include <ferrite/ferrite.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "ferrite/core/terminal.h"
#include "ferrite/examples/common/dataset.h"
#include "ferrite/examples/common/folder.h"
#include "ferrite/examples/common/lines.h"
#include "ferrite/examples/common/optimizers.h"
#include "ferrite/nn/models/resnet_layers.h"

namespace examples::pipeline {

using namespace ferrite;

namespace {

nn::Sequential convnet(std::int64_t channels, std::int64_t height, std::int64_t classes) {
  return nn::Sequential(nn::Conv2d(channels, 16, 5, {.padding = 2}), nn::BatchNorm2d(16),
                        nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(16, 32, 5, {.padding = 2}),
                        nn::BatchNorm2d(32), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                        nn::Linear(32 * (height / 4) * (height / 4), classes));
}

/// A network as a list of layers; for ResNet-18 also the network itself, which saves under its own
/// names.
struct Network {
  std::unique_ptr<nn::ResNet18> resnet;
  nn::Sequential layers;

  nn::Module& saved() { return resnet ? static_cast<nn::Module&>(*resnet) : layers; }
};

Network make_network(const Options& options, const Tensor& image, std::int64_t classes) {
  manual_seed(options.seed);
  if (options.model == "convnet") return {nullptr, convnet(image.size(0), image.size(1), classes)};
  auto resnet = std::make_unique<nn::ResNet18>(nn::ResNetOptions{.classes = classes,
                                                                 .in_channels = image.size(0),
                                                                 .stem = nn::ResNetStem::small,
                                                                 .width = options.width});
  nn::Sequential layers = nn::resnet_layers(*resnet);
  return {std::move(resnet), std::move(layers)};
}

parallel::PipelineCheckpoint checkpoint_of(const std::string& name) {
  if (name == "always") return parallel::PipelineCheckpoint::always;
  if (name == "never") return parallel::PipelineCheckpoint::never;
  return parallel::PipelineCheckpoint::except_last;
}

std::vector<std::int64_t> balance_of(const Options& options, nn::Sequential& layers,
                                     const Tensor& batch, const Device& device) {
  const int stages = options.stages;
  if (options.balance == "time")
    return parallel::balance_by_time(stages, layers, batch, {.device = device});
  if (options.balance == "size")
    return parallel::balance_by_size(stages, layers, batch,
                                     {.device = device, .chunks = options.chunks});
  return {};
}

std::unique_ptr<optim::Optimizer> optimizer_of(const Options& options, const nn::Module& model) {
  return make_optimizer(*options.optimizer, model.parameters(),
                        {.lr = *options.lr, .momentum = 0.9});
}

/// Images per second of training steps on one batch, by the median step.
double speed_of(const Options& options, nn::Module& model, const Tensor& images,
                const Tensor& labels, const std::vector<Device>& devices) {
  const auto optimizer = optimizer_of(options, model);
  std::vector<double> seconds;
  for (std::int64_t step = 0; step <= options.measured; ++step) {
    const metrics::Timer timer;
    optimizer->zero_grad();
    cross_entropy(model(images), labels).backward();
    optimizer->step();
    for (const Device& device : devices) synchronize(device);
    if (step > 0) seconds.push_back(timer.seconds());  // the first one allocates
  }
  std::ranges::sort(seconds);
  return static_cast<double>(images.size(0)) / seconds[seconds.size() / 2];
}

double accuracy_of(nn::Module& model, data::DataLoader<>& loader, const Device& device) {
  model.eval();
  const NoGradGuard no_grad;
  metrics::Accuracy accuracy(device);
  for (const auto& [images, labels] : loader) accuracy.update(model(images), labels.to(device));
  model.train();
  return accuracy.value();
}

}  // namespace

std::vector<Device> devices_of(const Options& options) {
  std::vector<Device> devices;
  for (const std::string& name : options.devices) devices.emplace_back(name);
  if (!devices.empty()) return devices;
  const bool cuda = cuda::is_available() && cuda::device_count() >= options.stages;
  for (int i = 0; i < options.stages; ++i)
    devices.emplace_back(cuda ? DeviceType::cuda : DeviceType::cpu, i);
  return devices;
}

void train(const Options& options, const std::vector<Device>& devices) {
  if (!options.checkpoint_dir.empty())
    make_writable_folder(options.checkpoint_dir, "--checkpoint-dir");
  const Splits data = open_dataset(options);
  FERRITE_CHECK(*options.batch_size <= data.train->size(), ValueError, "--batch-size",
                "expected at most {}, the number of training images, got {}", data.train->size(),
                *options.batch_size);
  data::DataLoader loader(data.train, {.batch_size = *options.batch_size,
                                       .shuffle = true,
                                       .num_workers = options.workers,
                                       .drop_last = true,
                                       .seed = options.seed});
  data::DataLoader tests(data.test,
                         {.batch_size = *options.batch_size, .num_workers = options.workers});
  const data::Batch first = *loader.begin();
  const auto classes = static_cast<std::int64_t>(data.classes.size());
  Network net = make_network(options, first.inputs[0], classes);

  const std::vector<std::int64_t> balance =
      balance_of(options, net.layers, first.inputs, devices.front());
  double alone = 0;
  if (options.measured > 0) {
    Network one = make_network(options, first.inputs[0], classes);
    one.layers.to(devices.front());
    alone = speed_of(options, one.layers, first.inputs.to(devices.front()),
                     first.labels.to(devices.front()), {devices.front()});
  }

  parallel::Pipeline pipe(net.layers, devices,
                          {.chunks = options.chunks,
                           .checkpoint = checkpoint_of(options.checkpoint),
                           .balance = balance});
  const Device last = pipe.output_device();
  fmt::print("{}: {} train and {} test images; {} per device\n", options.dataset,
             data.train->size(), data.test->size(), terminal::counted(num_threads(), "thread"));
  fmt::print("{}({})\n", pipe.name(), pipe.extra_repr());
  if (options.measured > 0) {
    const StateDict before = net.layers.state_dict().clone();
    const double together = speed_of(options, pipe, first.inputs.to(pipe.input_device()),
                                     first.labels.to(last), devices);
    net.layers.load_state_dict(before);
    fmt::print("images per second: {:.1f} on {} alone, {:.1f} on all, {:.2f} times as fast\n",
               alone, devices.front(), together, together / alone);
  }

  pipe.reset_report();
  const auto optimizer = optimizer_of(options, pipe);
  const metrics::Timer timer;
  std::int64_t steps = 0;
  double accuracy = 0;
  const auto finished = [&] { return options.max_steps > 0 && steps >= options.max_steps; };
  for (std::int64_t epoch = 1; epoch <= *options.epochs && !finished(); ++epoch) {
    const std::string label = metrics::progress_label("epoch", epoch, *options.epochs);
    std::int64_t most = loader.size(), done = 0;
    if (options.max_steps > 0) most = std::min(most, options.max_steps - steps);
    metrics::ProgressBar bar(label, most);
    metrics::DeviceAverageMeter losses(last);
    metrics::Throughput speed;
    for (const auto& [images, labels] : loader) {
      const Tensor loss = cross_entropy(pipe(images), labels.to(last));
      optimizer->zero_grad();
      loss.backward();
      optimizer->step();
      losses.update(loss, images.size(0));
      ++steps;
      speed.update(images.size(0));
      if (++done == most) break;
      if (bar.due(done))
        bar.update(done,
                   fmt::format("loss {:.4f} {:.0f} images/s", losses.value().avg(), speed.rate()));
    }
    const double loss = losses.value().avg();
    bar.finish(metrics::train_line(label, loss, {}, fmt::format("{:.0f} images/s", speed.rate())));
    accuracy = accuracy_of(pipe, tests, last);
    fmt::print("{}\n", metrics::test_line(label, {}, accuracy));
  }
  for (const Device& device : devices) synchronize(device);
  fmt::print("\n{}\n\n{}", finished_line(accuracy, steps, timer.seconds()),
             terminal::with_heading(pipe.report().str(), 1));
  if (options.checkpoint_dir.empty()) return;
  const auto path = std::filesystem::path(options.checkpoint_dir) / "final.safetensors";
  save(net.saved().state_dict(), path);
  fmt::print("weights saved in {}\n", path.string());
}

}  // namespace examples::pipeline
