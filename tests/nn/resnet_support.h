// Common code of the tests of residual networks.
#pragma once

#include <string_view>

#include "ferrite/core/tensor.h"
#include "ferrite/nn/models/resnet.h"

namespace ferrite::test {

/// The weights and running statistics of tests/golden/record_resnet.py.
void fill(nn::Module& net);

/// The labels of its images.
Tensor labels(std::int64_t count, std::int64_t classes);

/// The child of that name; null if there is none.
nn::Module* child(const nn::Module& module, std::string_view name);

/// The output of `net`, computed by its layers one after another without fusion.
Tensor composed(nn::ResNet& net, const Tensor& x);

}  // namespace ferrite::test
