// Deterministic algorithms: the same bits from the same inputs, run after run.
//
// Most ops are always deterministic. Where the faster algorithm of a device is not (sums by
// atomics, whose order varies), this switch selects the deterministic one, or makes the op throw if
// there is none.
#pragma once

#include "ferrite/core/device.h"

namespace ferrite {

/// For the whole process; off by default.
void use_deterministic_algorithms(bool on);
/// What use_deterministic_algorithms() set.
bool are_deterministic_algorithms_enabled();

/// For kernels that have no deterministic path: throws Error naming `op` and `device` if the mode
/// is on.
void alert_not_deterministic(const char* op, const Device& device);

}  // namespace ferrite
