// The speed of a DataLoader: Ferrite's side of compare.py. One measurement for every line on stdin,
// one line of JSON for each on stdout.
#include <ferrite/ferrite.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>
#include <memory>
#include <random>
#include <string>

#include "ferrite/benchmarks/program.h"

namespace {

using namespace ferrite;

struct Options {
  std::string source = "memory", images;
  std::int64_t batch = 64, samples = 60'000;
  int workers = 0;
  double seconds = 0.5;
};

constexpr double kMean = 0.2860, kDeviation = 0.3530;  // Fashion-MNIST's

/// As many images as MNIST has, of its size, with approximately the mean and deviation above.
data::ImageDataset images_in_memory(std::int64_t samples, const data::Transform& transform) {
  Tensor images = empty({samples, 1, 28, 28}, {.dtype = kUInt8});
  Tensor labels = empty({samples}, {.dtype = kInt64});
  std::minstd_rand random;
  for (std::int64_t i = 0; i < images.numel(); ++i) {
    const auto bits = static_cast<unsigned>(random() >> 8);
    images.data<std::uint8_t>()[i] =
        static_cast<std::uint8_t>(bits % 3 == 0 ? 131 + bits / 3 % 125 : bits / 3 % 51);
  }
  for (std::int64_t i = 0; i < samples; ++i) labels.data<std::int64_t>()[i] = i % 10;
  return {images, labels, std::vector<std::string>(10, "class"), transform};
}

std::shared_ptr<const data::Dataset> open(const Options& options) {
  using namespace data;
  if (options.source == "folder") {
    const Compose transform{RandomResizedCrop(224), RandomHorizontalFlip(), ToTensor(),
                            Normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225})};
    return std::make_shared<ImageFolder>(options.images,
                                         ImageFolderOptions{.transform = transform});
  }
  const auto images =
      images_in_memory(options.samples, Compose{ToTensor(), Normalize(kMean, kDeviation)});
  if (options.source == "memory") return std::make_shared<ImageDataset>(images);
  std::vector<std::int64_t> all(static_cast<std::size_t>(options.samples));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  const Batch floats = images.get_batch(all);
  return std::make_shared<TensorDataset<data::Sample>>(floats.inputs, floats.labels);
}

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The result of an epoch: the number of images, and the values of a batch, which reveal a side
/// that is fast because it does nothing.
struct Epoch {
  std::int64_t images = 0;
  Tensor batch;
};

Epoch run_epoch(data::DataLoader<>& loader) {
  Epoch epoch;
  for (auto& [images, labels] : loader) {
    epoch.images += labels.size(0);
    if (!epoch.batch.defined()) epoch.batch = images;
  }
  return epoch;
}

nlohmann::json measure(data::DataLoader<>& loader, double at_least) {
  using Clock = std::chrono::steady_clock;
  const double processor = processor_seconds();
  const Clock::time_point start = Clock::now();
  Epoch epoch;
  std::int64_t images = 0;
  double seconds = 0;
  do {
    epoch = run_epoch(loader);
    images += epoch.images;
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  } while (seconds < at_least);
  const double used = processor_seconds() - processor;
  const Tensor centred = epoch.batch - epoch.batch.mean();
  return {{"images_per_second", static_cast<double>(images) / seconds},
          {"processor_seconds_per_image", used / static_cast<double>(images)},
          {"images", images},
          {"seconds", seconds},
          {"mean", epoch.batch.mean().item<double>()},
          {"deviation", std::sqrt((centred * centred).mean().item<double>())}};
}

void serve(const Options& options) {
  data::DataLoader loader(
      open(options),
      {.batch_size = options.batch, .shuffle = true, .num_workers = options.workers, .seed = 0});
  run_epoch(loader);
  bench::answer({{"ready", true},
                 {"framework", "Ferrite"},
                 {"version", FERRITE_VERSION},
                 {"compiler", __VERSION__},
                 {"samples", loader.dataset().size()}});
  for (std::string line; std::getline(std::cin, line);)
    bench::answer(measure(loader, options.seconds));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Measures a DataLoader: images per second, shuffled, float32 and normalized. Every line on "
      "stdin is answered by a line of JSON.");
  Options options;
  app.option_defaults()->group("Data");
  app.add_option("--source", options.source,
                 "memory: uint8 images; tensors: the same converted before; folder: files, "
                 "RandomResizedCrop(224) and RandomHorizontalFlip")
      ->check(CLI::IsMember({"memory", "tensors", "folder"}))
      ->capture_default_str();
  app.add_option("--images", options.images, "the folder of images, by class");
  app.add_option("--samples", options.samples, "images in memory")->capture_default_str();
  app.option_defaults()->group("Measurement");
  app.add_option("--batch", options.batch, "batch size")->capture_default_str();
  app.add_option("--workers", options.workers, "threads that prepare batches")
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "a measurement takes, or an epoch")
      ->capture_default_str();
  return bench::run(app, argc, argv, [&] { serve(options); });
}
