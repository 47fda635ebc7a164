// The memory and utilization of a CUDA device, for progress lines and reports.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ferrite/core/device.h"

namespace examples {

/// "31 MiB (peak 40, reserved 64) busy 87%": memory of tensors, and the percentage of time in which
/// a kernel ran, if that is known. Empty for other devices. Does not wait for the device.
std::string device_use(const ferrite::Device& device);

/// The same in bytes and percent: "memory" {allocated, max_allocated, reserved, max_reserved} and
/// "utilization" {kernels, memory} or null. Null for other devices.
nlohmann::json device_use_report(const ferrite::Device& device);

}  // namespace examples
