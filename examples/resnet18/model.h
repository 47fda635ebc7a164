// The network, what of it is trained, and in which precision.
#pragma once

#include <memory>
#include <vector>

#include "ferrite/examples/resnet18/options.h"
#include "ferrite/nn/module.h"
#include "ferrite/optim/amp/options.h"

namespace examples {

/// For images [C, H, W] of so many classes.
std::unique_ptr<ferrite::nn::Module> make_model(const Options& options, std::int64_t channels,
                                                std::int64_t classes);

/// The parameters that are not frozen. ValueError where all are.
std::vector<ferrite::Tensor> trainable(const ferrite::nn::Module& model);

/// --opt-level, --half, --keep-batchnorm-fp32 and --loss-scale. ValueError.
ferrite::optim::amp::Options precision(const Options& options);

/// Puts the model into training, but norms whose parameters are all frozen: those go on normalising
/// by their running statistics, which stay as they are.
void set_training(ferrite::nn::Module& model);

}  // namespace examples
