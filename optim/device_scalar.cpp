#include "ferrite/optim/device_scalar.h"

#include <algorithm>
#include <cmath>

#include "ferrite/kernels/copy.h"
#include "ferrite/optim/capture.h"

namespace ferrite::optim {

void DeviceScalar::refuse_change(const Device& device, double value) const {
  FERRITE_CHECK(!is_capturing(device), CudaError, op_,
                "the {} would become {} while the step is captured into a graph, and again with "
                "each replay; set it outside of the captured step",
                what_, value);
}

void DeviceScalar::set(double value) {
  for (const auto& [tensor, written] : copies_)
    if (written != value) refuse_change(tensor.device(), value);
  for (const auto& [tensor, written] : copies_) on(tensor.device(), value);
}

const Tensor& DeviceScalar::on(const Device& device, double value) {
  auto found = std::ranges::find_if(copies_, [&](auto& c) { return c.first.device() == device; });
  if (found == copies_.end()) {
    refuse_new_state(device, op_, "the place of an option on the device");
    copies_.emplace_back(empty({}, {.dtype = kFloat64, .device = device}), NAN);
    found = copies_.end() - 1;
  }
  if (found->second != value) {
    refuse_change(device, value);
    kernels::fill(current_stream(device), found->first, value);
    found->second = value;
  }
  return found->first;
}

}  // namespace ferrite::optim
