// What programs do to CUDA devices by torch.cuda's names, and the devices that there are.
// `device` -1 is the current one. Where there is no CUDA device they do nothing, or return 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ferrite/core/cuda.h"
#include "ferrite/core/device.h"

namespace ferrite {

/// cuda:i if there is one, else the host.
Device try_gpu(int i = 0);
/// All CUDA devices; the host where there is none.
std::vector<Device> try_all_gpus();

namespace cuda {

/// Waits for all work of a device; then rethrows the first exception of it.
void synchronize(int device = -1);
/// Returns cached memory to the system.
void empty_cache(int device = -1);
std::size_t memory_allocated(int device = -1);
std::size_t max_memory_allocated(int device = -1);
std::size_t memory_reserved(int device = -1);
void reset_peak_memory_stats(int device = -1);
/// What the device's allocator holds, as a table; empty where there is no CUDA device.
std::string memory_summary(int device = -1);
/// Seeds the generator of the current CUDA device.
void manual_seed(std::uint64_t seed);
/// Seeds the generators of all CUDA devices.
void manual_seed_all(std::uint64_t seed);
/// DeviceError if there is no such device.
std::string get_device_name(int device = -1);
/// What cudaDeviceProp says of the device.
const DeviceProperties& get_device_properties(int device = -1);

/// Makes a device the current one of this thread, which "cuda" means, for the lifetime of the
/// object. The host and -1 change nothing. zeros({2}) is made on the host all the same, as in
/// torch.cuda.device: DefaultDeviceScope (core/device.h) is what changes that.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  explicit DeviceScope(const Device& device)
      : DeviceScope(device.is_cuda() ? device.index() : -1) {}
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int previous_ = -1;
};
/// The current device while it lives.
using CUDAGuard = DeviceScope;  // libtorch's name

}  // namespace cuda
}  // namespace ferrite
