#include "ferrite/parallel/data_parallel/device_comm_arguments.h"

#include "ferrite/core/error.h"

namespace ferrite::parallel::dp {

void check_broadcast(std::span<const Tensor> tensors, const Device& root) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    FERRITE_CHECK(tensors[i].defined(), ValueError, "broadcast", "tensor {} of {} is undefined", i,
                  tensors.size());
    FERRITE_CHECK(tensors[i].device() == root, DeviceError, "broadcast",
                  "expected tensors on {}, the first of the devices, tensor {} of {} is {}", root,
                  i, tensors.size(), tensors[i].describe());
  }
}

std::vector<Tensor> check_reduce_add(std::span<const std::vector<Tensor>> parts,
                                     std::span<const Device> devices, int first) {
  constexpr const char* op = "reduce_add";
  FERRITE_CHECK(first >= 0 && parts.size() + static_cast<std::size_t>(first) <= devices.size(),
                ValueError, op,
                "expected at most one list for each of {} devices, got {} from device {} on",
                devices.size(), parts.size(), first);
  if (parts.empty()) return {};
  std::vector<Tensor> like(parts[0].size());
  for (std::size_t d = 0; d < parts.size(); ++d) {
    const Device& device = devices[d + static_cast<std::size_t>(first)];
    FERRITE_CHECK(parts[d].size() == like.size(), ValueError, op,
                  "expected {} tensors of each device, got {} of {}", like.size(), parts[d].size(),
                  device);
    for (std::size_t i = 0; i < like.size(); ++i) {
      const Tensor& part = parts[d][i];
      if (!part.defined()) continue;
      FERRITE_CHECK(part.device() == device, DeviceError, op,
                    "expected the tensors of list {} on {}, tensor {} is {}", d, device, i,
                    part.describe());
      FERRITE_CHECK(part.dtype() != kBool, DTypeError, op,
                    "expected numbers to add, tensor {} is {}", i, part.describe());
      if (!like[i].defined()) like[i] = part;
      FERRITE_CHECK(part.dtype() == like[i].dtype(), DTypeError, op,
                    "tensor {} is {} and {}: expected one type", i, like[i].describe(),
                    part.describe());
      FERRITE_CHECK(part.shape() == like[i].shape(), ShapeError, op,
                    "tensor {} is {} and {}: expected one shape", i, like[i].describe(),
                    part.describe());
    }
  }
  return like;
}

}  // namespace ferrite::parallel::dp
