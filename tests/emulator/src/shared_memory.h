// The shared memory of the running block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "ferrite/emulator/arithmetic.h"

namespace emulator {

constexpr std::size_t kStaticSharedLimit = 48 << 10;
constexpr std::size_t kSharedLimit = 227 << 10;

/// How much static and dynamic shared memory a block of a kernel may have in all: more than the
/// default where cudaFuncSetAttribute has asked for it. With the lock held.
std::size_t shared_limit(const void* function);

/// Static and dynamic shared memory have `limit` bytes in all.
void begin_shared_launch(std::size_t dynamic_bytes, std::size_t limit);
void begin_shared_block();
void end_shared_block();  // checks the red zones

/// Reports an error if the running kernel's access is not within one array.
void check_shared_bounds(std::uintptr_t address, std::size_t bytes, bool write, const void* pc);

/// " on shared memory, at byte 12 of an array of 64" and the like.
void describe_shared(std::FILE* out, std::uintptr_t address);

}  // namespace emulator
