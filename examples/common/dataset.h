// --dataset and --data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ferrite/data/dataset.h"
#include "ferrite/examples/common/training_options.h"

namespace examples {

/// Mean and deviation of the training pixels in [0, 1], one for all channels or one a channel.
struct Normalization {
  std::vector<double> mean = {0}, std = {1};
};

/// How training images are varied, and what image folders are turned into.
struct ImageOptions {
  /// Random crops of the image with 4 zeros around it (digits: 2), mirrored half the time but for
  /// digits; of image folders RandomResizedCrop, mirrored half the time.
  bool augment = false;
  std::int64_t image_size = 224;  ///< of image folders: height and width
  bool gray = false;              ///< of image folders: one channel, not three
};

/// Images come as normalized float32 [C, H, W].
struct Splits {
  std::shared_ptr<ferrite::data::Dataset> train, test;
  std::vector<std::string> classes;
  Normalization normalization;
};

/// synthetic-digits, mnist, fashion-mnist, cifar10, or image-folder: DIR/train/CLASS/ and
/// DIR/val/CLASS/ (or DIR/test/CLASS/) of PNG and JPEG files. IoError says what is missing.
Splits open_dataset(const TrainingOptions& options, const ImageOptions& images = {});

}  // namespace examples
