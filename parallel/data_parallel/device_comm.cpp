#include "ferrite/parallel/data_parallel/device_comm.h"

#include <algorithm>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/clique.h"
#include "ferrite/parallel/data_parallel/device_comm_copies.h"
#include "ferrite/parallel/data_parallel/device_comm_nccl.h"

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

}  // namespace ferrite::parallel::dp
