// What a training run takes of its CUDA device, for progress lines and reports.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ferrite/core/device.h"

namespace examples {

/// "31 MiB (peak 40, reserved 64) busy 87%": memory of tensors, and how much of the time a kernel
/// ran, where that can be known. Empty for other devices. Waits for nothing.
std::string device_use(const ferrite::Device& device);

/// The same in bytes and percent: "memory" {allocated, max_allocated, reserved, max_reserved} and
/// "utilization" {kernels, memory} or null. Null for other devices.
nlohmann::json device_use_report(const ferrite::Device& device);

}  // namespace examples
