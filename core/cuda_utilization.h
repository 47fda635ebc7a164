// How busy a CUDA device is, as measured by NVML, the library behind nvidia-smi.
#pragma once

#include <optional>

namespace ferrite::cuda {

/// Percent of the sample period.
struct Utilization {
  int kernels = 0;  ///< while a kernel ran, small or large
  int memory = 0;   ///< while the device's memory was read or written
};

/// Utilization of cuda:`device` by all processes, over the driver's last sample period (a sixth of
/// a second to a second). Does not wait. Nothing if NVML does not report it: a driver without NVML,
/// a partition of a device (MIG), the emulator. FERRITE_NVML names a library to use instead of
/// libnvidia-ml.so.1. DeviceError if the device does not exist.
std::optional<Utilization> utilization(int device);

}  // namespace ferrite::cuda
