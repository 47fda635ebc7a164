#include "ferrite/parallel/data_parallel/device_comm.h"

#include <algorithm>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/clique.h"
#include "ferrite/parallel/data_parallel/device_comm_backends.h"

namespace ferrite::parallel::dp {

namespace {

void check_devices(const std::vector<Device>& devices, const char* op) {
  FERRITE_CHECK(!devices.empty(), ValueError, op, "expected at least one device, got none");
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const Device& device = devices[d];
    FERRITE_CHECK(device.type() == devices[0].type(), DeviceError, op,
                  "expected devices of one type, got {} and {}", devices[0], device);
    FERRITE_CHECK(!device.is_cuda() || device.index() < cuda::device_count(), DeviceError, op,
                  "{} was asked for, but there are {} CUDA devices", device, cuda::device_count());
    FERRITE_CHECK(std::count(devices.begin(), devices.end(), device) == 1, ValueError, op,
                  "expected each device once, {} is named twice", device);
  }
}

}  // namespace

std::shared_ptr<DeviceComm> make_device_comm(std::vector<Device> devices,
                                             std::string_view backend) {
  constexpr const char* op = "device_comm";
  check_devices(devices, op);
  FERRITE_CHECK(backend.empty() || backend == "nccl" || backend == "copies", ValueError, op,
                "expected the backend to be \"nccl\", \"copies\" or \"\", got \"{}\"", backend);
  FERRITE_CHECK(backend != "nccl" || devices[0].is_cuda(), DeviceError, op,
                "expected CUDA devices for the backend nccl, got {}", devices[0]);
  const bool by_nccl =
      backend.empty() && devices[0].is_cuda() && devices.size() > 1 && comm::has_nccl_clique();
  if (by_nccl || backend == "nccl") return make_nccl_device_comm(std::move(devices));
  return make_copies_device_comm(std::move(devices));
}

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
