// What an optimizer keeps of one parameter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/optim/master_weight.h"

namespace ferrite::optim {

/// Which gradient the optimizer saw last: its memory, and how often that had been written other
/// than by clipping and unscaling.
struct GradientSeen {
  const void* storage = nullptr;  ///< the memory of the gradient
  std::uint32_t version = 0;      ///< how often that memory had been written

  /// The mark of this gradient.
  static GradientSeen of(const Tensor& grad) {
    return {grad.storage().get(), grad.storage()->version_of_values()};
  }
  friend bool operator==(const GradientSeen&, const GradientSeen&) = default;
};

struct ParameterState {
  /// The state `name`, of `shape` and with the dtype, device and, where the shape is the same, the
  /// layout of `like`, to which it is converted where it differs. Zeros at first. CudaError where
  /// it would be made or moved while a step is captured.
  const Tensor& get(std::string_view name, const Shape& shape, const Tensor& like, const char* op);
  /// The count of updates on a device; made and moved as the state is.
  const Tensor& step_on(const Device& device, const char* op);

  Tensor step;  ///< updates so far, int64; undefined before the first
  /// What the method keeps of the parameter, by name.
  std::vector<std::pair<std::string, Tensor>> tensors;
  MasterWeight master;         ///< the float32 copy of a 16-bit parameter
  GradientSeen gradient_seen;  ///< the gradient that the optimizer saw last
};

}  // namespace ferrite::optim
