// --dataset and --data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "examples/common/training_options.h"

namespace examples {

/// Mean and deviation of the training pixels in [0, 1].
struct Normalization {
  double mean = 0, std = 1;
};

/// Images come as normalized float32 [1, 28, 28].
struct Splits {
  std::shared_ptr<ferrite::data::Dataset> train, test;
  std::vector<std::string> classes;
  Normalization normalization;
};

Splits open_dataset(const TrainingOptions& options);

}  // namespace examples
