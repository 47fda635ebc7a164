// The race detector's record of every four bytes of device and shared memory.
#pragma once

#include <cstdint>

#include "ferrite/tests/emulator/src/memory.h"

namespace emulator {

/// The thread that accessed the bytes, when, and from where.
struct Access {
  static constexpr std::uint8_t kAtomic = 1;
  static constexpr std::uint8_t kSeveral = 2;  // several threads did so since the last barrier

  std::uint32_t work;  // the kernel or copy; 0: no access yet
  std::uint32_t block;
  std::uint32_t pc;                       // relative to a fixed address in the program
  std::uint32_t thread : 10, epoch : 22;  // epoch: barriers passed
  std::uint16_t warp_epoch;               // __syncwarps passed
  std::uint8_t bytes;                     // which of the four, one bit each
  std::uint8_t flags;

  static std::uint32_t pack(const void* pc);
  const void* instruction() const;
};

struct Cell {
  Access write;
  Access reads[2];
  std::uint32_t unused;
};
static_assert(sizeof(Cell) == 64);

/// The cells of an address; those of the following bytes are contiguous.
Cell* device_cell(std::uintptr_t address);
Cell* shared_cell(std::uintptr_t address);

}  // namespace emulator
