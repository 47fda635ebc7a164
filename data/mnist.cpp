#include "ferrite/data/mnist.h"

#include "ferrite/core/views.h"
#include "ferrite/data/files_of_dataset.h"
#include "ferrite/data/idx.h"

namespace ferrite::data {

namespace {

constexpr std::int64_t kSide = 28;

struct Loaded {
  Tensor images, labels;
};

/// Plain before compressed, the original name before that of some mirrors.
std::vector<std::string> names_of(const std::string& stem, const std::string& kind) {
  std::vector<std::string> names;
  for (const char* end : {"", ".gz"})
    for (const char* separator : {"-", "."}) names.push_back(stem + separator + kind + end);
  return names;
}

Loaded load_files(const FileSearch& search, Split split, std::int64_t classes) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const auto image_file = find_file(search, names_of(prefix + "-images", "idx3-ubyte"));
  const auto label_file = find_file(search, names_of(prefix + "-labels", "idx1-ubyte"));
  const Tensor images = read_idx(image_file), labels = read_idx(label_file);
  FERRITE_CHECK(images.dtype() == kUInt8 && images.dim() == 3 && images.size(1) == kSide &&
                    images.size(2) == kSide,
                IoError, search.op, "'{}' holds {}; expected uint8[N, 28, 28]", image_file.string(),
                images.describe());
  FERRITE_CHECK(labels.dtype() == kUInt8 && labels.dim() == 1 && labels.size(0) == images.size(0),
                IoError, search.op, "'{}' holds {}; expected uint8[{}], a label an image",
                label_file.string(), labels.describe(), images.size(0));
  check_labels(labels, classes, search.op, label_file.string());
  return {geometry::apply(images, geometry::unsqueeze(images, 1)),
          from_vector(labels.to_vector<std::int64_t>(), labels.shape())};
}

ImageDataset load(const FileSearch& search, Split split, std::vector<std::string> classes,
                  Transform transform) {
  const Loaded files = load_files(search, split, static_cast<std::int64_t>(classes.size()));
  return ImageDataset(files.images, files.labels, std::move(classes), std::move(transform));
}

}  // namespace

MNIST::MNIST(const std::filesystem::path& root, Split split, Transform transform)
    : ImageDataset(load({.op = "mnist",
                         .root = root,
                         .folders = {"mnist", "MNIST/raw", "MNIST", ""},
                         .source = "https://ossci-datasets.s3.amazonaws.com/mnist/"},
                        split, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
                        std::move(transform))) {}

FashionMNIST::FashionMNIST(const std::filesystem::path& root, Split split, Transform transform)
    : ImageDataset(load({.op = "fashion_mnist",
                         .root = root,
                         .folders = {"fashion-mnist", "FashionMNIST/raw", "FashionMNIST", ""},
                         .source = "https://github.com/zalandoresearch/fashion-mnist"},
                        split,
                        {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
                         "Sneaker", "Bag", "Ankle boot"},
                        std::move(transform))) {}

}  // namespace ferrite::data
