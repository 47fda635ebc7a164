// Checking gradients against finite differences, for Ferrite's tests and for users' own operations.
#pragma once

#include <functional>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite::autograd {

/// The options of gradcheck().
struct GradcheckOptions {
  double eps = 1e-6;   ///< step of the central differences
  double atol = 1e-5;  ///< |analytic - numeric| <= atol + rtol * |numeric|
  double rtol = 1e-3;  ///< the allowed difference as a part of the numeric gradient
  /// Also checks the gradients of each gradient (create_graph), by the inputs and by the gradient
  /// of the result.
  bool second_order = false;
};

/// The function that is checked.
using GradcheckFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// Compares the analytic gradient of `function` with finite differences, for every element of every
/// input that requires a gradient. The output may have any shape; it is checked along a fixed
/// random direction. Inputs are float64 tensors of any strides on any device, without overlapping
/// elements; `function` must be deterministic. Throws AutogradError naming the input, the element
/// and both values if they disagree; DTypeError for inputs that are not float64. Returns true.
bool gradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options = {});
/// gradcheck() with second_order.
inline bool gradgradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
                          GradcheckOptions options = {}) {
  options.second_order = true;
  return gradcheck(function, inputs, options);
}

}  // namespace ferrite::autograd
