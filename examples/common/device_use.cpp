#include "ferrite/examples/common/device_use.h"

#include <fmt/format.h>

#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda_utilization.h"

namespace examples {

std::string device_use(const ferrite::Device& device) {
  if (!device.is_cuda()) return "";
  const ferrite::MemoryStats memory = ferrite::allocator(device).stats();
  const auto mib = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  std::string text = fmt::format("{:.0f} MiB (peak {:.0f}, reserved {:.0f})", mib(memory.allocated),
                                 mib(memory.max_allocated), mib(memory.reserved));
  if (const auto busy = ferrite::cuda::utilization(device.index()))
    text += fmt::format(" busy {}%", busy->kernels);
  return text;
}

nlohmann::json device_use_report(const ferrite::Device& device) {
  if (!device.is_cuda()) return nullptr;
  const ferrite::MemoryStats memory = ferrite::allocator(device).stats();
  nlohmann::json report = {{"memory",
                            {{"allocated", memory.allocated},
                             {"max_allocated", memory.max_allocated},
                             {"reserved", memory.reserved},
                             {"max_reserved", memory.max_reserved}}},
                           {"utilization", nullptr}};
  if (const auto busy = ferrite::cuda::utilization(device.index()))
    report["utilization"] = {{"kernels", busy->kernels}, {"memory", busy->memory}};
  return report;
}

}  // namespace examples
