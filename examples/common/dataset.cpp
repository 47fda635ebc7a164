#include "ferrite/examples/common/dataset.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>

#include "ferrite/core/parallel_for.h"
#include "ferrite/data/auto_augment.h"
#include "ferrite/data/cifar10.h"
#include "ferrite/data/image_folder.h"
#include "ferrite/data/mnist.h"
#include "ferrite/data/svhn.h"
#include "ferrite/data/synthetic_digits.h"

namespace examples {

namespace data = ferrite::data;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kSyntheticTrain = 20000, kSyntheticTest = 4000;

/// --data, else FERRITE_DATA, else the first conventional folder that exists.
fs::path root_of(const TrainingOptions& options) {
  if (!options.data.empty()) return options.data;
  if (const char* root = std::getenv("FERRITE_DATA"); root && *root) return root;
  return "data-sets";
}

/// Mean and deviation of all pixels, in [0, 1].
Normalization measure(const ferrite::Tensor& images) {
  const auto* pixels = images.data<std::uint8_t>();
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < images.numel(); ++i) {
    sum += pixels[i];
    squares += static_cast<double>(pixels[i]) * pixels[i];
  }
  const auto n = static_cast<double>(images.numel());
  const double mean = sum / n;
  return {{mean / 255}, {std::sqrt(squares / n - mean * mean) / 255}};
}

enum class Mirror : std::uint8_t { never, half };

/// What --trivial-augment adds; null without it.
data::Transform trivial(const ImageOptions& options) {
  return options.trivial_augment ? data::TrivialAugmentWide() : data::Transform();
}

/// The augmentation for images of side `size`; null if it is off.
data::Transform variation(const ImageOptions& options, std::int64_t size, std::int64_t padding,
                          Mirror mirror) {
  if (!options.augment) return trivial(options);
  const data::Transform flip =
      mirror == Mirror::never ? data::Transform() : data::RandomHorizontalFlip();
  return data::Compose{data::RandomCrop(size, padding), flip, trivial(options)};
}

/// Both splits with the same normalization; the training split is augmented, and erased last.
template <class D>
Splits normalized(D train, D test, const Normalization& n, const ImageOptions& images,
                  const data::Transform& train_first = {}, const data::Transform& test_first = {}) {
  const data::Compose normalize{data::ToTensor(), data::Normalize(n.mean, n.std)};
  const data::Transform erase =
      images.random_erase > 0 ? data::RandomErasing({.p = images.random_erase}) : data::Transform();
  train.set_transform(data::Compose{train_first, normalize, erase});
  test.set_transform(data::Compose{test_first, normalize});
  std::vector<std::string> classes = train.classes();
  return {.train = std::make_shared<D>(std::move(train)),
          .test = std::make_shared<D>(std::move(test)),
          .classes = std::move(classes),
          .normalization = n};
}

/// Both splits, read in parallel by open(Split).
template <class Open>
auto read_both(Open open) {
  using D = std::invoke_result_t<Open, data::Split>;
  std::array<std::optional<D>, 2> splits;
  std::array<std::exception_ptr, 2> errors;
  ferrite::parallel_for(2, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) try {
        splits[i].emplace(open(i == 0 ? data::Split::train : data::Split::test));
      } catch (...) {
        errors[i] = std::current_exception();
      }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return std::pair{*std::move(splits[0]), *std::move(splits[1])};
}

template <class D>
Splits read(const TrainingOptions& options, const ImageOptions& images, const Normalization& n,
            const data::Transform& varied) {
  auto [train, test] =
      read_both([root = root_of(options)](data::Split split) { return D(root, split); });
  return normalized(std::move(train), std::move(test), n, images, varied);
}

/// A split of EMNIST, "emnist-letters", normalized by the mean and deviation of its training
/// images.
Splits read_emnist(const TrainingOptions& options, const ImageOptions& images) {
  const std::string which = options.dataset.substr(std::string("emnist-").size());
  auto [train, test] = read_both(
      [&, root = root_of(options)](data::Split split) { return data::EMNIST(root, which, split); });
  const Normalization n = measure(train.images());
  return normalized(std::move(train), std::move(test), n, images,
                    variation(images, 28, 2, Mirror::never));
}

template <class D>
Normalization moments_of() {
  return {{D::kMean.begin(), D::kMean.end()}, {D::kStd.begin(), D::kStd.end()}};
}

/// Image folders in ImageNet's layout, normalized by its mean and deviation.
Splits read_folders(const TrainingOptions& options, const ImageOptions& images) {
  const fs::path root = root_of(options);
  const data::ImageFolderOptions folder{.mode = images.gray ? data::ImageMode::gray
                                                            : data::ImageMode::rgb};
  std::error_code ignored;
  data::ImageFolder train(root / "train", folder);
  data::ImageFolder test(fs::is_directory(root / "val", ignored) ? root / "val" : root / "test",
                         folder);
  FERRITE_CHECK(train.classes() == test.classes(), ferrite::IoError, "--data",
                "the training and test folders in '{}' have different classes", root.string());
  const Normalization n = images.gray ? Normalization{{0.449}, {0.226}}
                                      : Normalization{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  const std::int64_t size = images.image_size;
  const data::Compose middle{data::Resize(size * 8 / 7), data::CenterCrop(size)};
  const data::Compose varied{data::RandomResizedCrop(size), data::RandomHorizontalFlip()};
  const data::Compose first{images.augment ? data::Transform(varied) : data::Transform(middle),
                            trivial(images)};
  return normalized(std::move(train), std::move(test), n, images, first, middle);
}

}  // namespace

Splits open_dataset(const TrainingOptions& options, const ImageOptions& images) {
  using data::CIFAR10, data::CIFAR100, data::FashionMNIST, data::MNIST, data::SVHN;
  const data::Transform digits = variation(images, 28, 2, Mirror::never);
  if (options.dataset == "mnist")
    return read<MNIST>(options, images, {{MNIST::kMean}, {MNIST::kStd}}, digits);
  if (options.dataset == "fashion-mnist")
    return read<FashionMNIST>(options, images, {{FashionMNIST::kMean}, {FashionMNIST::kStd}},
                              variation(images, 28, 4, Mirror::half));
  if (options.dataset == "cifar10")
    return read<CIFAR10>(options, images, moments_of<CIFAR10>(),
                         variation(images, 32, 4, Mirror::half));
  if (options.dataset == "cifar100")
    return read<CIFAR100>(options, images, moments_of<CIFAR100>(),
                          variation(images, 32, 4, Mirror::half));
  if (options.dataset == "svhn")
    return read<SVHN>(options, images, moments_of<SVHN>(), variation(images, 32, 4, Mirror::never));
  if (options.dataset.starts_with("emnist-")) return read_emnist(options, images);
  if (options.dataset == "image-folder") return read_folders(options, images);
  // Disjoint by seed: sample i is a function of (seed, i).
  data::SyntheticDigits train(kSyntheticTrain, 2 * options.seed);
  data::SyntheticDigits test(kSyntheticTest, 2 * options.seed + 1);
  // A few images suffice for the statistics; the others are drawn during training.
  const Normalization n = measure(data::SyntheticDigits(500, 2 * options.seed).images());
  return normalized(std::move(train), std::move(test), n, images, digits);
}

}  // namespace examples
