// The networks of this example, and their default training settings.
#pragma once

#include <memory>
#include <string>

#include "ferrite/examples/common/training_options.h"
#include "ferrite/nn/module.h"

namespace examples::lenet {

struct Recipe {
  std::int64_t epochs = 10;
  std::int64_t batch_size = 128;
  std::string optimizer = "sgd";
  double lr = 0.05;
  double momentum = 0.9;
  bool cosine =
      true;  ///< the learning rate follows half a cosine to zero; otherwise it is constant
};

/// lenet5: momentum and a cosine schedule. d2l: the settings of the multi-GPU chapter of Dive into
/// Deep Learning (batch 256, lr 0.2, plain SGD), to reproduce its published accuracy.
Recipe recipe_for(const TrainingOptions& options);

/// ValueError for an unknown name.
std::unique_ptr<ferrite::nn::Module> make_model(const std::string& name);

}  // namespace examples::lenet
