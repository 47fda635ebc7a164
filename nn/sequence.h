// Running modules one after another, for whoever has a list of them that is not a Sequential.
#pragma once

#include <span>

#include "ferrite/nn/module.h"

namespace ferrite::nn {

/// What a Sequential of these modules computes, in the same fused steps.
Tensor run_in_order(std::span<Module* const> modules, const Tensor& input);

}  // namespace ferrite::nn
