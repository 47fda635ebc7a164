// --optimizer by name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/optim/optimizer.h"

namespace examples {

struct OptimizerSettings {
  double lr;
  double momentum = 0;  ///< for sgd and lars
  /// Unset: each optimizer's own default.
  std::optional<double> weight_decay = {};
};

/// sgd, adam, adamw, rmsprop, lars or lamb.
std::unique_ptr<ferrite::optim::Optimizer> make_optimizer(
    const std::string& name, const std::vector<ferrite::Tensor>& parameters,
    const OptimizerSettings& settings);

}  // namespace examples
