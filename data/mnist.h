// MNIST and Fashion-MNIST: 60,000 training and 10,000 test images of 1x28x28, 10 classes; and
// EMNIST, with letters.
#pragma once

#include <filesystem>
#include <string>

#include "ferrite/data/image_dataset.h"

namespace ferrite::data {

/// Handwritten digits (LeCun, Cortes, Burges). Looks for the IDX files, with or without .gz, in
/// root/mnist, root/MNIST/raw, root/MNIST and root. IoError if they are missing (naming the paths
/// tried and the download source) or malformed.
///
///   data::MNIST train("data"), test("data", data::Split::test);
class MNIST : public ImageDataset {
 public:
  explicit MNIST(const std::filesystem::path& root, Split split = Split::train,
                 Transform transform = ToTensor());

  static constexpr double kMean = 0.1307, kStd = 0.3081;  ///< of the training pixels in [0, 1]
};

/// Zalando's articles (Xiao, Rasul, Vollgraf, 2017). As MNIST, from root/fashion-mnist,
/// root/FashionMNIST/raw, root/FashionMNIST and root.
class FashionMNIST : public ImageDataset {
 public:
  explicit FashionMNIST(const std::filesystem::path& root, Split split = Split::train,
                        Transform transform = ToTensor());

  /// Mean and standard deviation of the training images, in [0, 1], for Normalize.
  static constexpr double kMean = 0.2860;
  /// Mean and standard deviation of the training images, in [0, 1], for Normalize.
  static constexpr double kStd = 0.3530;
};

/// Digits and letters (Cohen et al. 2017), in the splits "byclass" (62 classes), "bymerge" and
/// "balanced" (47), "letters" (26, which are 1 to 26), "digits" and "mnist" (10). The files
/// emnist-*-train-images-idx3-ubyte and so on, with or without .gz, in root/EMNIST/raw,
/// root/EMNIST, root/emnist, root/gzip and root. Images are as in the files, where rows are
/// columns, as torchvision has them. ValueError for other splits, IoError as for MNIST.
class EMNIST : public ImageDataset {
 public:
  explicit EMNIST(const std::filesystem::path& root, const std::string& which,
                  Split split = Split::train, Transform transform = ToTensor());
};

}  // namespace ferrite::data
