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

Loaded load_files(const FileSearch& search, const std::string& prefix, std::int64_t classes) {
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

ImageDataset load(const FileSearch& search, const std::string& prefix,
                  std::vector<std::string> classes, Transform transform) {
  const Loaded files = load_files(search, prefix, static_cast<std::int64_t>(classes.size()));
  return ImageDataset(files.images, files.labels, std::move(classes), std::move(transform));
}

std::string prefix_of(Split split) { return split == Split::train ? "train" : "t10k"; }

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> all;
  for (const char c : text) all.emplace_back(1, c);
  return all;
}

/// The classes of a split of EMNIST, by label.
std::vector<std::string> emnist_classes(const std::string& which) {
  const std::string digits = "0123456789", upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (which == "digits" || which == "mnist") return characters(digits);
  if (which == "byclass") return characters(digits + upper + "abcdefghijklmnopqrstuvwxyz");
  // Small letters that look like their capitals are the same class.
  if (which == "bymerge" || which == "balanced") return characters(digits + upper + "abdefghnqrt");
  FERRITE_CHECK(which == "letters", ValueError, "emnist",
                "expected byclass, bymerge, balanced, letters, digits or mnist, got '{}'", which);
  std::vector<std::string> letters = characters("abcdefghijklmnopqrstuvwxyz");
  letters.insert(letters.begin(), "N/A");
  return letters;
}

}  // namespace

MNIST::MNIST(const std::filesystem::path& root, Split split, Transform transform)
    : ImageDataset(load({.op = "mnist",
                         .root = root,
                         .folders = {"mnist", "MNIST/raw", "MNIST", ""},
                         .source = "https://ossci-datasets.s3.amazonaws.com/mnist/"},
                        prefix_of(split), {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
                        std::move(transform))) {}

FashionMNIST::FashionMNIST(const std::filesystem::path& root, Split split, Transform transform)
    : ImageDataset(load({.op = "fashion_mnist",
                         .root = root,
                         .folders = {"fashion-mnist", "FashionMNIST/raw", "FashionMNIST", ""},
                         .source = "https://github.com/zalandoresearch/fashion-mnist"},
                        prefix_of(split),
                        {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
                         "Sneaker", "Bag", "Ankle boot"},
                        std::move(transform))) {}

EMNIST::EMNIST(const std::filesystem::path& root, const std::string& which, Split split,
               Transform transform)
    : ImageDataset(load({.op = "emnist",
                         .root = root,
                         .folders = {"EMNIST/raw", "EMNIST", "emnist", "gzip", ""},
                         .source = "https://www.nist.gov/itl/products-and-services/emnist-dataset"},
                        "emnist-" + which + (split == Split::train ? "-train" : "-test"),
                        emnist_classes(which), std::move(transform))) {}

}  // namespace ferrite::data
