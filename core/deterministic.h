// Deterministic algorithms: the same bits from the same inputs, run after run.
//
// Most ops are deterministic anyway. Where the faster algorithm of a device is not (sums by
// atomics, of which the order varies), this switch chooses the one that is, or has the op throw
// where there is none.
#pragma once

#include "ferrite/core/device.h"

namespace ferrite {

/// For the whole process; off at first.
void use_deterministic_algorithms(bool on);
bool are_deterministic_algorithms_enabled();

/// For kernels that have no deterministic path: throws Error naming `op` and `device` where the
/// mode is on.
void alert_not_deterministic(const char* op, const Device& device);

}  // namespace ferrite
