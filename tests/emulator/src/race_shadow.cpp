#ifdef FERRITE_EMULATOR_RACE
#include "ferrite/tests/emulator/src/race_shadow.h"

#include <sys/mman.h>

#include <cstdlib>

#include "ferrite/tests/emulator/src/shared_memory.h"

extern "C" const char __executable_start[];

namespace emulator {

namespace {

/// Address space for the cells of all device memory; pages are allocated on access.
Cell* map_cells() {
  constexpr std::size_t kBytes = kMaxDevices * kDeviceRange / 4 * sizeof(Cell);
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("emulator: no address range for the race detector");
    std::abort();
  }
  madvise(memory, kBytes, MADV_NOHUGEPAGE);
  return static_cast<Cell*>(memory);
}

Cell* device_cells() {
  static Cell* const cells = map_cells();
  return cells;
}

Cell shared_cells[(320 << 10) / 4 + 1];

}  // namespace

// Enough for a program of 4 GiB; kernels of other shared libraries are shown without a line.
std::uint32_t Access::pack(const void* pc) {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(pc) - reinterpret_cast<std::uintptr_t>(__executable_start);
  return offset >> 32 ? 0 : static_cast<std::uint32_t>(offset);
}
const void* Access::instruction() const { return pc ? __executable_start + pc : nullptr; }

Cell* device_cell(std::uintptr_t address) { return device_cells() + (address - device_base) / 4; }
Cell* shared_cell(std::uintptr_t address) {
  return shared_cells + (address - reinterpret_cast<std::uintptr_t>(shared_arena)) / 4;
}

}  // namespace emulator
#endif
