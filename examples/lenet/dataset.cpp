#include "examples/lenet/dataset.h"

#include <cstdlib>
#include <filesystem>

#include "core/error.h"
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

template <class D>
Splits read(const TrainingOptions& options) {
  const data::Compose transform{data::ToTensor(), data::Normalize(D::kMean, D::kStd)};
  const std::filesystem::path root = root_of(options);
  return {.train = std::make_shared<D>(root, data::Split::train, transform),
          .test = std::make_shared<D>(root, data::Split::test, transform),
          .classes = class_names(options.dataset),
          .normalization = {D::kMean, D::kStd}};
}

}  // namespace

Splits open_dataset(const TrainingOptions& options) {
  if (options.dataset == "mnist") return read<data::MNIST>(options);
  if (options.dataset == "fashion-mnist") return read<data::FashionMNIST>(options);
  const Normalization n{data::SyntheticDigits::kMean, data::SyntheticDigits::kStd};
  const data::Compose transform{data::ToTensor(), data::Normalize(n.mean, n.std)};
  // Disjoint by seed: sample i is a function of (seed, i).
  return {.train =
              std::make_shared<data::SyntheticDigits>(kSyntheticTrain, 2 * options.seed, transform),
          .test = std::make_shared<data::SyntheticDigits>(kSyntheticTest, 2 * options.seed + 1,
                                                          transform),
          .classes = class_names(options.dataset),
          .normalization = n};
}

std::vector<std::string> class_names(const std::string& dataset) {
  if (dataset == "fashion-mnist")
    return {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
            "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  if (dataset == "mnist" || dataset == "synthetic-digits")
    return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  ferrite::fail<ferrite::ValueError>(
      "dataset", "expected synthetic-digits, mnist or fashion-mnist, got '{}'", dataset);
}

}  // namespace examples
