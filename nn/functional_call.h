// A module as a function of its tensors.
#pragma once

#include <utility>
#include <vector>

#include "ferrite/nn/module.h"

namespace ferrite::nn {

namespace detail {

/// Puts other tensors in the places of a module's, until the end of the scope.
class SubstitutedTensors {
 public:
  SubstitutedTensors(Module& module, const StateDict& tensors);
  ~SubstitutedTensors();
  SubstitutedTensors(const SubstitutedTensors&) = delete;
  SubstitutedTensors& operator=(const SubstitutedTensors&) = delete;

 private:
  std::vector<std::pair<Tensor*, Tensor>> originals_;
};

}  // namespace detail

/// torch.func.functional_call: module(inputs...) with `tensors` in the places of its parameters and
/// buffers of those names; the others stay. Gradients reach `tensors`. Parameters that the module
/// shares are replaced wherever they are. ValueError, with the closest name, for a name that the
/// module does not have; ShapeError for another shape. One call of a module at a time.
template <std::derived_from<Module> M, class... Inputs>
auto functional_call(M& module, const StateDict& tensors, Inputs&&... inputs) {
  const detail::SubstitutedTensors substituted(module, tensors);
  return module(std::forward<Inputs>(inputs)...);
}

}  // namespace ferrite::nn
