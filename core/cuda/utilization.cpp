// core/cuda_utilization.h for builds with CUDA. NVML comes with the driver and not with the
// toolkit: it is loaded on first use, and the few functions used are declared here.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/cuda_utilization.h"
#include "ferrite/core/error.h"

namespace ferrite::cuda {

namespace {

using NvmlDevice = struct nvmlDevice_st*;
struct NvmlUtilization {
  unsigned gpu, memory;
};
constexpr int kNvmlSuccess = 0;

struct Nvml {
  int (*device_by_bus_id)(const char* id, NvmlDevice* device) = nullptr;
  int (*utilization_rates)(NvmlDevice device, NvmlUtilization* rates) = nullptr;
};

template <class F>
bool find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  return function != nullptr;
}

/// Nothing if the library is missing, incompatible, or fails to initialize.
std::optional<Nvml> open_nvml(const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!library) return {};
  int (*initialize)() = nullptr;
  Nvml nvml;
  if (find(library, "nvmlInit_v2", initialize) &&
      find(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.device_by_bus_id) &&
      find(library, "nvmlDeviceGetUtilizationRates", nvml.utilization_rates) &&
      initialize() == kNvmlSuccess)
    return nvml;
  dlclose(library);
  return {};
}

/// Opened once per name, and never closed.
const std::optional<Nvml>& nvml() {
  static std::mutex& mutex = *new std::mutex;
  static auto& opened = *new std::map<std::string, std::optional<Nvml>>;
  const char* setting = std::getenv("FERRITE_NVML");
  const std::string name = setting && *setting ? setting : "libnvidia-ml.so.1";
  std::lock_guard lock(mutex);
  const auto found = opened.find(name);
  if (found != opened.end()) return found->second;
  return opened.emplace(name, open_nvml(name)).first->second;
}

}  // namespace

std::optional<Utilization> utilization(int device) {
  FERRITE_CHECK(device >= 0 && device < device_count(), DeviceError, "utilization",
                "there is no cuda:{}; there are {} CUDA devices", device, device_count());
  const std::optional<Nvml>& library = nvml();
  if (!library) return {};
  // NVML's device numbers ignore CUDA_VISIBLE_DEVICES; the bus id is the same for both.
  std::array<char, 32> bus_id{};
  FERRITE_CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device));
  NvmlDevice handle = nullptr;
  NvmlUtilization rates{};
  if (library->device_by_bus_id(bus_id.data(), &handle) != kNvmlSuccess ||
      library->utilization_rates(handle, &rates) != kNvmlSuccess)
    return {};
  return Utilization{.kernels = static_cast<int>(rates.gpu),
                     .memory = static_cast<int>(rates.memory)};
}

}  // namespace ferrite::cuda
