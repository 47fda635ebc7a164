// What the race detector remembers of every four bytes of device and shared memory.
#pragma once

#include <cstdint>

#include "ferrite/tests/emulator/src/memory.h"

namespace emulator {

/// Who touched the bytes, when, and from where.
struct Access {
  static constexpr std::uint8_t kAtomic = 1;
  static constexpr std::uint8_t kSeveral = 2;  // threads did so since the last barrier

  std::uint32_t work;  // the kernel or copy; 0: nobody yet
  std::uint32_t block;
  std::uint32_t pc;                       // from a fixed place in the program
  std::uint32_t thread : 10, epoch : 22;  // epoch: barriers passed
  std::uint16_t warp_epoch;               // __syncwarps passed
  std::uint8_t bytes;                     // of the four, a bit each
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

/// The cells of an address; those of the bytes behind it follow.
Cell* device_cell(std::uintptr_t address);
Cell* shared_cell(std::uintptr_t address);

}  // namespace emulator
