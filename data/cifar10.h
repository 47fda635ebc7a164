// CIFAR-10 (Krizhevsky, 2009): 50,000 training and 10,000 test images of 3x32x32, 10 classes.
#pragma once

#include <array>
#include <filesystem>
#include <string_view>

#include "ferrite/data/file.h"
#include "ferrite/data/image_dataset.h"

namespace ferrite::data {

/// Reads the binary version, data_batch_1.bin to data_batch_5.bin or test_batch.bin, in
/// root/cifar-10-batches-bin, root/cifar-10, root/cifar10 and root. IoError if a file is missing
/// (naming the paths tried and the download source), is not 30,730,000 bytes long, or has a label
/// above 9.
class CIFAR10 : public ImageDataset {
 public:
  explicit CIFAR10(const std::filesystem::path& root, Split split = Split::train,
                   Transform transform = ToTensor());

  /// Per channel, of the training pixels in [0, 1].
  static constexpr std::array<double, 3> kMean = {0.4914, 0.4822, 0.4465};
  static constexpr std::array<double, 3> kStd = {0.2470, 0.2435, 0.2616};
};

/// Parses one file of records (label, 3x32x32 pixels) in memory: images uint8 [N, 3, 32, 32] and
/// labels int64 [N]. IoError if the size is not a multiple of a record's 3073 bytes or a label is
/// above 9.
Batch parse_cifar10(Bytes bytes, std::string_view name);

}  // namespace ferrite::data
