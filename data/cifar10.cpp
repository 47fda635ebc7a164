#include "ferrite/data/cifar10.h"

#include <cstring>

#include "ferrite/data/files_of_dataset.h"

namespace ferrite::data {

namespace {

constexpr std::size_t kPixels = 3 * 32 * 32;

/// The binary version of a set: records of labels, of which the last is that of the class, and
/// pixels.
struct CifarFormat {
  std::string_view op;
  std::vector<int> largest;  // labels

  std::size_t record() const { return largest.size() + kPixels; }
};
const CifarFormat kTen{"cifar10", {9}}, kHundred{"cifar100", {19, 99}};

/// Copies the records of one file, whose size has been checked.
void decode(const CifarFormat& format, Bytes bytes, const Where& where, std::uint8_t* images,
            std::int64_t* labels) {
  const std::size_t count = format.largest.size();
  for (std::size_t at = 0; at < bytes.size(); at += format.record()) {
    for (std::size_t i = 0; i < count; ++i)
      where.check(bytes[at + i] <= format.largest[i], at + i, "expected a label of 0 to {}, got {}",
                  format.largest[i], bytes[at + i]);
    *labels++ = bytes[at + count - 1];
    std::memcpy(images, bytes.data() + at + count, kPixels);
    images += kPixels;
  }
}

Batch make_batch(std::size_t records) {
  const auto n = static_cast<std::int64_t>(records);
  return {empty({n, 3, 32, 32}, {.dtype = kUInt8, .device = kCPU}),
          empty({n}, {.dtype = kInt64, .device = kCPU})};
}

/// Files of `records` images each.
ImageDataset load_cifar(const CifarFormat& format, const FileSearch& search,
                        const std::vector<std::string>& names, std::size_t records,
                        std::vector<std::string> classes, Transform transform) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& name : names) paths.push_back(find_file(search, {name}));
  const Batch all = make_batch(names.size() * records);
  const std::size_t size = records * format.record();
  std::size_t done = 0;
  for (const auto& path : paths) {
    const MappedFile file(path, format.op);
    const std::string name = path.string();
    const Where where{format.op, name};
    where.check(file.bytes().size() == size, file.bytes().size(),
                "expected a file of {} bytes, got {}; download it again", size,
                file.bytes().size());
    decode(format, file.bytes(), where, all.inputs.data<std::uint8_t>() + done * kPixels,
           all.labels.data<std::int64_t>() + done);
    done += records;
  }
  return ImageDataset(all.inputs, all.labels, std::move(classes), std::move(transform));
}

Batch parse_cifar(const CifarFormat& format, Bytes bytes, std::string_view name) {
  const Where where{format.op, name};
  where.check(!bytes.empty() && bytes.size() % format.record() == 0, bytes.size(),
              "expected records of {} bytes, got a file of {} bytes", format.record(),
              bytes.size());
  Batch batch = make_batch(bytes.size() / format.record());
  decode(format, bytes, where, batch.inputs.data<std::uint8_t>(),
         batch.labels.data<std::int64_t>());
  return batch;
}

}  // namespace

Batch parse_cifar10(Bytes bytes, std::string_view name) { return parse_cifar(kTen, bytes, name); }

Batch parse_cifar100(Bytes bytes, std::string_view name) {
  return parse_cifar(kHundred, bytes, name);
}

CIFAR10::CIFAR10(const std::filesystem::path& root, Split split, Transform transform)
    : ImageDataset(load_cifar(
          kTen,
          {.op = kTen.op,
           .root = root,
           .folders = {"cifar-10-batches-bin", "cifar-10", "cifar10", ""},
           .source = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"},
          split == Split::train
              ? std::vector<std::string>{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin"}
              : std::vector<std::string>{"test_batch.bin"},
          10000,
          {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship",
           "truck"},
          std::move(transform))) {}

CIFAR100::CIFAR100(const std::filesystem::path& root, Split split, Transform transform)
    : ImageDataset(load_cifar(
          kHundred,
          {.op = kHundred.op,
           .root = root,
           .folders = {"cifar-100-binary", "cifar-100", "cifar100", ""},
           .source = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"},
          {split == Split::train ? "train.bin" : "test.bin"}, split == Split::train ? 50000 : 10000,
          {"apple",    "aquarium_fish", "baby",       "bear",         "beaver",
           "bed",      "bee",           "beetle",     "bicycle",      "bottle",
           "bowl",     "boy",           "bridge",     "bus",          "butterfly",
           "camel",    "can",           "castle",     "caterpillar",  "cattle",
           "chair",    "chimpanzee",    "clock",      "cloud",        "cockroach",
           "couch",    "crab",          "crocodile",  "cup",          "dinosaur",
           "dolphin",  "elephant",      "flatfish",   "forest",       "fox",
           "girl",     "hamster",       "house",      "kangaroo",     "keyboard",
           "lamp",     "lawn_mower",    "leopard",    "lion",         "lizard",
           "lobster",  "man",           "maple_tree", "motorcycle",   "mountain",
           "mouse",    "mushroom",      "oak_tree",   "orange",       "orchid",
           "otter",    "palm_tree",     "pear",       "pickup_truck", "pine_tree",
           "plain",    "plate",         "poppy",      "porcupine",    "possum",
           "rabbit",   "raccoon",       "ray",        "road",         "rocket",
           "rose",     "sea",           "seal",       "shark",        "shrew",
           "skunk",    "skyscraper",    "snail",      "snake",        "spider",
           "squirrel", "streetcar",     "sunflower",  "sweet_pepper", "table",
           "tank",     "telephone",     "television", "tiger",        "tractor",
           "train",    "trout",         "tulip",      "turtle",       "wardrobe",
           "whale",    "willow_tree",   "wolf",       "woman",        "worm"},
          std::move(transform))) {}

}  // namespace ferrite::data
