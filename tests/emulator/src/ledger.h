// What the runtime tells the ledger.
#pragma once

#include <cstddef>

#include "ferrite/emulator/launch.h"

namespace emulator {

extern bool ledger_open;

/// An operation of a stream begins, whose accesses follow; null: one that the ledger leaves out.
void ledger_begin(const char* name);
void ledger_launch(const Launch& launch);
/// Counts an access to device memory.
void ledger_count(const void* address, std::size_t bytes, bool write);

}  // namespace emulator
