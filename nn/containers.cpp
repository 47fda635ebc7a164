#include "ferrite/nn/containers.h"

#include <span>

#include "ferrite/nn/activation.h"
#include "ferrite/nn/conv.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/norm.h"
#include "ferrite/nn/sequence.h"
#include "ferrite/ops/matmul.h"

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

/// What one op made of some modules at the beginning of a list.
struct Fused {
  Tensor out;
  std::size_t modules = 0;  // 0: there is no such op, or hooks want to see what is between
};

Fused run_fused(std::span<Module* const> modules, const Tensor& x) {
  if (modules.size() < 2) return {};
  Module &first = *modules[0], &second = *modules[1];
  if (first.has_hooks() || second.has_hooks()) return {};
  const bool relu_next = exactly<ReLU>(second);
  if (const Linear* linear = exactly<Linear>(first)) {
    if (relu_next) return {linear_relu(x, linear->weight, linear->bias), 2};
    if (const GELU* gelu = exactly<GELU>(second))
      return {linear_gelu(x, linear->weight, linear->bias, gelu->approximate()), 2};
  }
  if (BatchNorm2d* norm = exactly<BatchNorm2d>(first); norm && relu_next)
    return {norm->forward_relu(x), 2};
  if (Conv2d* conv = exactly<Conv2d>(first)) {
    if (relu_next) return {conv->forward_relu(x), 2};
    if (BatchNorm2d* norm = exactly<BatchNorm2d>(second); norm && x.dim() == 4) {
      if (modules.size() > 2 && exactly<ReLU>(*modules[2]) && !modules[2]->has_hooks())
        return {norm->forward_relu(*conv, x), 3};
      return {norm->forward(*conv, x), 2};
    }
  }
  return {};
}

}  // namespace

Tensor run_in_order(std::span<Module* const> modules, const Tensor& input) {
  Tensor x = input;
  for (std::span<Module* const> rest = modules; !rest.empty();) {
    Fused fused = run_fused(rest, x);
    if (fused.modules == 0) fused = {(*rest[0])(x), 1};
    x = std::move(fused.out);
    rest = rest.subspan(fused.modules);
  }
  return x;
}

Tensor Sequential::forward(const Tensor& input) { return run_in_order(children(), input); }

}  // namespace ferrite::nn
