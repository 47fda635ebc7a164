#include "examples/common/dataset.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "data/mnist.h"
#include "data/synthetic_digits.h"

namespace examples {

namespace data = ferrite::data;

namespace {

constexpr std::int64_t kSyntheticTrain = 20000, kSyntheticTest = 4000;

/// --data, else FERRITE_DATA, else the folder that is there by convention.
std::filesystem::path root_of(const TrainingOptions& options) {
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
  return {mean / 255, std::sqrt(squares / n - mean * mean) / 255};
}

/// Both splits, normalized alike.
template <class D>
Splits normalized(D train, D test, Normalization n) {
  const data::Compose transform{data::ToTensor(), data::Normalize(n.mean, n.std)};
  train.set_transform(transform);
  test.set_transform(transform);
  std::vector<std::string> classes = train.classes();
  return {.train = std::make_shared<D>(std::move(train)),
          .test = std::make_shared<D>(std::move(test)),
          .classes = std::move(classes),
          .normalization = n};
}

template <class D>
Splits read(const TrainingOptions& options) {
  const std::filesystem::path root = root_of(options);
  return normalized(D(root, data::Split::train), D(root, data::Split::test), {D::kMean, D::kStd});
}

}  // namespace

Splits open_dataset(const TrainingOptions& options) {
  if (options.dataset == "mnist") return read<data::MNIST>(options);
  if (options.dataset == "fashion-mnist") return read<data::FashionMNIST>(options);
  // Disjoint by seed: sample i is a function of (seed, i).
  data::SyntheticDigits train(kSyntheticTrain, 2 * options.seed);
  data::SyntheticDigits test(kSyntheticTest, 2 * options.seed + 1);
  const Normalization n = measure(train.images());
  return normalized(std::move(train), std::move(test), n);
}

}  // namespace examples
