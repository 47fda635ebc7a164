// The shared memory of the one block that runs.
#pragma once

#include <cstddef>

namespace emulator {

constexpr std::size_t kStaticSharedLimit = 48 << 10;
constexpr std::size_t kSharedLimit = 227 << 10;

/// The bytes that arrays are taken from.
extern unsigned char shared_arena[];
extern const std::size_t shared_arena_bytes;

void begin_shared_launch(std::size_t dynamic_bytes);
void begin_shared_block();
void end_shared_block();  // checks the red zones

}  // namespace emulator
