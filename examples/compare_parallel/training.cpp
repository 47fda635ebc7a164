#include "ferrite/examples/compare_parallel/training.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/generator.h"
#include "ferrite/examples/common/dataset.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"

namespace examples::compare {

using namespace ferrite;

namespace {

/// Ranks that are threads draw from one generator, each from the seed on.
std::mutex& random_numbers() {
  static std::mutex mutex;
  return mutex;
}

/// The shape of a data set's images, and the number of its classes.
struct Look {
  std::int64_t channels, size, classes;
};

std::shared_ptr<data::Dataset> open_images(const Options& o, Look& look) {
  TrainingOptions where;
  where.dataset = o.dataset;
  where.data = o.data;
  where.seed = o.seed;
  const Splits splits = open_dataset(where, {.image_size = o.image_size, .gray = o.channels == 1});
  const Tensor image = splits.train->get(0).input;
  look = {image.size(0), image.size(2), static_cast<std::int64_t>(splits.classes.size())};
  return splits.train;
}

Look look_of(const Options& o) {
  Look look{o.channels, o.image_size, o.classes};
  if (o.dataset != "synthetic") open_images(o, look);
  return look;
}

}  // namespace

data::Batch load_images(const Options& o, std::int64_t count) {
  if (o.dataset == "synthetic") {
    std::lock_guard lock(random_numbers());
    manual_seed(o.seed + 1);
    std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) labels[static_cast<std::size_t>(i)] = i % o.classes;
    return {randn({count, o.channels, o.image_size, o.image_size}), from_vector(labels, {count})};
  }
  Look look{};
  const auto images = open_images(o, look);
  FERRITE_CHECK(images->size() >= count, ValueError, "--data",
                "a step takes {} images, but there are {}", count, images->size());
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return images->get_batch(indices);
}

std::unique_ptr<nn::Module> make_network(const Options& o) {
  const Look look = look_of(o);
  std::lock_guard lock(random_numbers());
  manual_seed(o.seed);
  if (o.model == "lenet5") return std::make_unique<nn::LeNet5>(look.classes, look.channels);
  if (o.model == "d2l-lenet") {
    FERRITE_CHECK(look.classes == 10 && look.channels == 1, ValueError, "--model",
                  "d2l-lenet needs images with one channel and 10 classes, not {} and {}",
                  look.channels, look.classes);
    return std::make_unique<nn::D2LLeNet>();
  }
  return std::make_unique<nn::ResNet18>(
      nn::ResNetOptions{.classes = look.classes,
                        .in_channels = look.channels,
                        .stem = look.size <= 64 ? nn::ResNetStem::small : nn::ResNetStem::standard,
                        .width = o.width});
}

data::Batch part_of(const data::Batch& batch, int index, int parts) {
  const std::int64_t size = batch.size(), rest = size % parts;
  const std::int64_t begin = size / parts * index + std::min<std::int64_t>(index, rest);
  const std::int64_t count = size / parts + (index < rest ? 1 : 0);
  FERRITE_CHECK(count > 0, ValueError, "--batch", "{} images are too few for {} devices", size,
                parts);
  // Views would keep the whole batch.
  return {batch.inputs.narrow(0, begin, count).clone(),
          batch.labels.narrow(0, begin, count).clone()};
}

data::Batch to_device(const data::Batch& batch, const Device& device, const Options& o) {
  Tensor images = batch.inputs.to(device);
  // What the tensor cores like best.
  if (o.model == "resnet18") images = images.contiguous(kChannelsLast);
  return {images, batch.labels.to(device)};
}

Trainee::Trainee(const Options& o, const std::string& amp, const Device& device)
    : model_(make_network(o)) {
  model_->to(device);
  if (o.model == "resnet18" && device.is_cuda()) model_->to(kChannelsLast);
  sgd_ = std::make_unique<optim::SGD>(model_->parameters(),
                                      optim::SGDOptions{.lr = 1e-3, .momentum = 0.9});
  amp_.emplace(optim::amp::initialize(*model_, *sgd_, optim::amp::opt_level(amp)));
}

Tensor loss_of(const Tensor& logits, const Tensor& labels) { return cross_entropy(logits, labels); }

}  // namespace examples::compare
