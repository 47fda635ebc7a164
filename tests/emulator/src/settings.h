// The emulator's settings, from the environment and from tests.
#pragma once

#include "ferrite/emulator/emulator.h"

namespace emulator {

constexpr int kMaxDevices = 16;

/// May be read by the thread that holds the runtime's lock.
extern Settings current_settings;

}  // namespace emulator
