// The emulator's settings, as the environment and tests have set them.
#pragma once

#include "ferrite/emulator/emulator.h"

namespace emulator {

constexpr int kMaxDevices = 16;

/// Read freely by the thread that holds the runtime's lock.
extern Settings current_settings;

}  // namespace emulator
