// How busy a CUDA device is, as NVML, the library under nvidia-smi, measures it.
#pragma once

#include <optional>

namespace ferrite::cuda {

/// Percent of the time.
struct Utilization {
  int kernels = 0;  ///< while a kernel ran, small or large
  int memory = 0;   ///< while the device's memory was read or written
};

/// Of cuda:`device`, all processes together, over the driver's last sample period (a sixth of a
/// second to a second). Waits for nothing. Nothing where NVML does not say: where the driver comes
/// without it, on parts of a device (MIG), on the emulator. FERRITE_NVML names another library than
/// libnvidia-ml.so.1. DeviceError where there is no such device.
std::optional<Utilization> utilization(int device);

}  // namespace ferrite::cuda
