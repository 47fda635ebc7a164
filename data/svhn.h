// SVHN, Street View House Numbers (Netzer et al. 2011), cropped digits: 73,257 training, 26,032
// test and 531,131 extra images of 3x32x32, of 10 classes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "ferrite/data/file.h"
#include "ferrite/data/image_dataset.h"

namespace ferrite::data {

/// torchvision's names; `extra` are easier images for training.
enum class SvhnSplit : std::uint8_t { train, test, extra };

/// Reads train_32x32.mat, test_32x32.mat or extra_32x32.mat, in root/svhn, root/SVHN and root.
/// Labels are the digits 0 to 9. IoError if the file is missing (naming the paths tried and the
/// download source) or malformed.
class SVHN : public ImageDataset {
 public:
  explicit SVHN(const std::filesystem::path& root, SvhnSplit split = SvhnSplit::train,
                Transform transform = ToTensor());
  SVHN(const std::filesystem::path& root, Split split, Transform transform = ToTensor())
      : SVHN(root, split == Split::train ? SvhnSplit::train : SvhnSplit::test,
             std::move(transform)) {}

  /// Per channel, of the training pixels in [0, 1].
  static constexpr std::array<double, 3> kMean = {0.4377, 0.4438, 0.4728};
  static constexpr std::array<double, 3> kStd = {0.1980, 0.2010, 0.1970};
};

/// Parses a MATLAB file of version 5, little-endian, whose arrays, compressed or not, are X, uint8
/// 32x32x3xN, and y, N numbers of 1 to 10, where 10 is the digit 0: images uint8 [N, 3, 32, 32] and
/// labels int64 [N]. IoError, with the position, for any other; memory is bounded by what a file of
/// this size can hold.
Batch parse_svhn(Bytes bytes, std::string_view name);

}  // namespace ferrite::data
