#include "ferrite/nn/containers.h"

#include "ferrite/nn/fused.h"

namespace ferrite::nn {

Module& ModuleContainer::operator[](std::size_t index) const {
  FERRITE_CHECK(index < size_, IndexError, "module", "{} has {} modules, got index {}", name(),
                size_, index);
  return *children()[index];
}

Tensor Sequential::forward(const Tensor& input) { return run_in_order(children(), input); }

}  // namespace ferrite::nn
