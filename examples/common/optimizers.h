// --optimizer by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace examples {

/// sgd (with `momentum`), adam, adamw or rmsprop.
std::unique_ptr<ferrite::optim::Optimizer> make_optimizer(
    const std::string& name, const std::vector<ferrite::Tensor>& parameters, double lr,
    double momentum);

}  // namespace examples
