// --dataset and --data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ferrite/data/dataset.h"
#include "ferrite/examples/common/training_options.h"

namespace examples {

/// Mean and deviation of the training pixels in [0, 1], one for all channels or one per channel.
struct Normalization {
  std::vector<double> mean = {0}, std = {1};
};

/// Augmentation of training images, and the format of images from folders.
struct ImageOptions {
  /// Random crops of the image padded with 4 zeros (digits: 2), mirrored with probability 0.5
  /// except for digits; for image folders, RandomResizedCrop, mirrored with probability 0.5.
  bool augment = false;
  bool trivial_augment = false;   ///< TrivialAugmentWide after that
  double random_erase = 0;        ///< probability of RandomErasing, the last step
  std::int64_t image_size = 224;  ///< image folders: height and width in pixels
  bool gray = false;              ///< image folders: one channel instead of three
};

/// Images are normalized float32 [C, H, W].
struct Splits {
  std::shared_ptr<ferrite::data::Dataset> train, test;
  std::vector<std::string> classes;
  Normalization normalization;
};

/// synthetic-digits, mnist, fashion-mnist, emnist-balanced and EMNIST's other splits, cifar10,
/// cifar100, svhn, or image-folder: DIR/train/CLASS/ and DIR/val/CLASS/ (or DIR/test/CLASS/) of PNG
/// and JPEG files. Throws IoError, which names what is missing.
Splits open_dataset(const TrainingOptions& options, const ImageOptions& images = {});

}  // namespace examples
