// CIFAR-10 and CIFAR-100 (Krizhevsky, 2009): 50,000 training and 10,000 test images of 3x32x32, of
// 10 or 100 classes.
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

/// Reads the binary version, train.bin or test.bin, in root/cifar-100-binary, root/cifar-100,
/// root/cifar100 and root, with the fine labels. Errors as for CIFAR10; files have 3074 bytes an
/// image, and labels up to 19 (coarse) and 99.
class CIFAR100 : public ImageDataset {
 public:
  explicit CIFAR100(const std::filesystem::path& root, Split split = Split::train,
                    Transform transform = ToTensor());

  /// The mean of the training images for each channel, in [0, 1], for Normalize.
  static constexpr std::array<double, 3> kMean = {0.5071, 0.4865, 0.4409};
  static constexpr std::array<double, 3> kStd = {0.2673, 0.2564, 0.2762};
};

/// Parses one file of records (label, 3x32x32 pixels) in memory: images uint8 [N, 3, 32, 32] and
/// labels int64 [N]. IoError if the size is not a multiple of a record's 3073 bytes or a label is
/// above 9.
Batch parse_cifar10(Bytes bytes, std::string_view name);
/// The same of records (coarse label, fine label, pixels); the labels are the fine ones.
Batch parse_cifar100(Bytes bytes, std::string_view name);

}  // namespace ferrite::data
