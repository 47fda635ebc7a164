#include "ferrite/data/cifar10.h"

#include <cstring>

#include "ferrite/data/files_of_dataset.h"

namespace ferrite::data {

namespace {

constexpr std::size_t kPixels = 3 * 32 * 32, kRecord = 1 + kPixels, kRecordsPerFile = 10000;
constexpr std::string_view kOp = "cifar10";

/// Copies the records of one file, whose size has been checked.
void decode(Bytes bytes, const Where& where, std::uint8_t* images, std::int64_t* labels) {
  for (std::size_t at = 0; at < bytes.size(); at += kRecord) {
    where.check(bytes[at] <= 9, at, "expected a label of 0 to 9, got {}", bytes[at]);
    *labels++ = bytes[at];
    std::memcpy(images, bytes.data() + at + 1, kPixels);
    images += kPixels;
  }
}

Batch make_batch(std::size_t records) {
  const auto n = static_cast<std::int64_t>(records);
  return {empty({n, 3, 32, 32}, {.dtype = kUInt8}), empty({n}, {.dtype = kInt64})};
}

ImageDataset load(const FileSearch& search, Split split, Transform transform) {
  std::vector<std::string> names = {"test_batch.bin"};
  if (split == Split::train)
    names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
             "data_batch_5.bin"};
  std::vector<std::filesystem::path> paths;
  for (const std::string& name : names) paths.push_back(find_file(search, {name}));
  const Batch all = make_batch(names.size() * kRecordsPerFile);
  std::size_t done = 0;
  for (const auto& path : paths) {
    const MappedFile file(path, kOp);
    const std::string name = path.string();
    const Where where{kOp, name};
    where.check(file.bytes().size() == kRecord * kRecordsPerFile, file.bytes().size(),
                "expected a file of {} bytes, got {}; download it again", kRecord * kRecordsPerFile,
                file.bytes().size());
    decode(file.bytes(), where, all.inputs.data<std::uint8_t>() + done * kPixels,
           all.labels.data<std::int64_t>() + done);
    done += kRecordsPerFile;
  }
  return ImageDataset(
      all.inputs, all.labels,
      {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"},
      std::move(transform));
}

}  // namespace

Batch parse_cifar10(Bytes bytes, std::string_view name) {
  const Where where{kOp, name};
  where.check(!bytes.empty() && bytes.size() % kRecord == 0, bytes.size(),
              "expected records of {} bytes, got a file of {} bytes", kRecord, bytes.size());
  Batch batch = make_batch(bytes.size() / kRecord);
  decode(bytes, where, batch.inputs.data<std::uint8_t>(), batch.labels.data<std::int64_t>());
  return batch;
}

CIFAR10::CIFAR10(const std::filesystem::path& root, Split split, Transform transform)
    : ImageDataset(load({.op = kOp,
                         .root = root,
                         .folders = {"cifar-10-batches-bin", "cifar-10", "cifar10", ""},
                         .source = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"},
                        split, std::move(transform))) {}

}  // namespace ferrite::data
