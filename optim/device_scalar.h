// A number of the host with a copy on each device where steps read it.
#pragma once

#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite::optim {

class DeviceScalar {
 public:
  /// String literals for messages: an optimizer, and what of it the number is.
  DeviceScalar(const char* op, const char* what) : op_(op), what_(what) {}

  /// Changes the copies at once, since the next step may be a replay. CudaError if the change would
  /// be captured into a graph; nothing is changed then.
  void set(double value);
  /// The copy on `device`, 0-dimensional float64, with `value` in it; made if there is none.
  const Tensor& on(const Device& device, double value);

 private:
  void refuse_change(const Device& device, double value) const;

  const char* op_;
  const char* what_;
  std::vector<std::pair<Tensor, double>> copies_;  // and what was last written there
};

}  // namespace ferrite::optim
