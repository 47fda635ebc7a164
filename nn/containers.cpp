#include "nn/containers.h"

#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "ops/matmul.h"

namespace ferrite::nn {

Module& ModuleContainer::operator[](std::size_t index) const {
  FERRITE_CHECK(index < size_, IndexError, "module", "{} has {} modules, asked for number {}",
                name(), size_, index);
  return *children()[index];
}

namespace {

/// `module` as an M, or null where it is something else, be it derived from M.
template <class M>
M* exactly(Module& module) {
  return typeid(module) == typeid(M) ? static_cast<M*>(&module) : nullptr;
}

/// Two modules by one op; undefined where there is none, or hooks want to see both.
Tensor run_fused(Module& first, Module& second, const Tensor& x) {
  if (first.has_hooks() || second.has_hooks()) return {};
  if (const Linear* linear = exactly<Linear>(first)) {
    if (exactly<ReLU>(second)) return linear_relu(x, linear->weight, linear->bias);
    if (const GELU* gelu = exactly<GELU>(second))
      return linear_gelu(x, linear->weight, linear->bias, gelu->approximate());
  }
  if (Conv2d* conv = exactly<Conv2d>(first); conv && exactly<ReLU>(second))
    return conv->forward_relu(x);
  return {};
}

}  // namespace

Tensor Sequential::forward(const Tensor& input) {
  Tensor x = input;
  const std::vector<Module*> modules = children();
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (i + 1 < modules.size())
      if (Tensor y = run_fused(*modules[i], *modules[i + 1], x); y.defined()) {
        x = std::move(y);
        ++i;
        continue;
      }
    x = (*modules[i])(x);
  }
  return x;
}

}  // namespace ferrite::nn
