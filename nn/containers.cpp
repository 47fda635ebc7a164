#include "nn/containers.h"

namespace ferrite::nn {

Module& ModuleContainer::operator[](std::size_t index) const {
  FERRITE_CHECK(index < size_, IndexError, "module", "{} has {} modules, asked for number {}",
                name(), size_, index);
  return *children()[index];
}

Tensor Sequential::forward(const Tensor& input) {
  Tensor x = input;
  for (Module* module : children()) x = (*module)(x);
  return x;
}

}  // namespace ferrite::nn
