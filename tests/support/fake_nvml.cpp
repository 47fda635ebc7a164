// A replacement for NVML, with the functions used by core/cuda/utilization.cpp. FAKE_NVML_FAILS
// names the function that fails.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kNotSupported = 3, kNotFound = 6;

bool fails(const char* function) {
  const char* which = std::getenv("FAKE_NVML_FAILS");
  return which && std::strcmp(which, function) == 0;
}

}  // namespace

extern "C" {

// A handle is the bus number, from which the percentages are derived as well.
struct nvmlDevice_st;
struct NvmlUtilization {
  unsigned gpu, memory;
};

[[gnu::visibility("default")]] int nvmlInit_v2() { return fails("init") ? kNotFound : 0; }

[[gnu::visibility("default")]] int nvmlDeviceGetHandleByPciBusId_v2(const char* id,
                                                                    nvmlDevice_st** device) {
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (fails("handle")) return kNotFound;
  if (std::sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return kNotFound;
  *device = reinterpret_cast<nvmlDevice_st*>(static_cast<std::size_t>(bus));
  return 0;
}

[[gnu::visibility("default")]] int nvmlDeviceGetUtilizationRates(nvmlDevice_st* device,
                                                                 NvmlUtilization* rates) {
  if (fails("rates")) return kNotSupported;
  const auto bus = static_cast<unsigned>(reinterpret_cast<std::size_t>(device));
  *rates = {.gpu = bus % 100, .memory = bus % 100 / 2};
  return 0;
}

}  // extern "C"
