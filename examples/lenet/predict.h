// Saving of weights, and classification of pictures with them.
#pragma once

#include <string>

#include "ferrite/core/device.h"
#include "ferrite/examples/common/dataset.h"
#include "ferrite/examples/common/training_options.h"
#include "ferrite/nn/module.h"

namespace examples::lenet {

/// Writes `final.safetensors` into the checkpoint folder, with the metadata that predict() needs.
/// Returns its path.
std::string save_weights(const ferrite::nn::Module& model, const TrainingOptions& options,
                         const Splits& data);

/// Prints the most probable classes of a PNG. Pictures of other sizes are scaled to 28 x 28; a
/// picture that is dark on light is inverted, because the networks are trained with light on dark.
void predict(const std::string& picture, const std::string& checkpoint_dir,
             const ferrite::Device& device);

}  // namespace examples::lenet
