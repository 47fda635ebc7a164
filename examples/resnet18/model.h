// The network, its trainable parameters, and its precision.
#pragma once

#include <memory>
#include <vector>

#include "ferrite/examples/resnet18/options.h"
#include "ferrite/nn/module.h"
#include "ferrite/optim/amp/options.h"

namespace examples::resnet18 {

/// The network for images of that shape, [C, H, W], and `classes` classes.
std::unique_ptr<ferrite::nn::Module> make_model(const Options& options, const ferrite::Shape& image,
                                                std::int64_t classes);

/// The parameters that are not frozen. ValueError if all are frozen.
std::vector<ferrite::Tensor> trainable(const ferrite::nn::Module& model);

/// The options --opt-level, --half, --keep-batchnorm-fp32 and --loss-scale. ValueError if they are
/// invalid.
ferrite::optim::amp::Options precision(const Options& options);

/// Puts the model into training mode, except norms whose parameters are all frozen: these keep
/// normalising by their running statistics, which do not change.
void set_training(ferrite::nn::Module& model);

}  // namespace examples::resnet18
