#include "ferrite/emulator/ledger.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "ferrite/tests/emulator/src/ledger.h"
#include "ferrite/tests/emulator/src/memory.h"

namespace emulator {

bool ledger_open = false;

namespace {

constexpr std::uintptr_t kSector = 32;

/// The operation that last read a sector, and the last that wrote it.
struct Sector {
  std::uint16_t reader, writer;
};

/// Address space for the sectors of all device memory; pages are allocated on access.
Sector* map_sectors() {
  constexpr std::size_t kBytes = kMaxDevices * kDeviceRange / kSector * sizeof(Sector);
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("emulator: no address range for the ledger");
    std::abort();
  }
  return static_cast<Sector*>(memory);
}

std::mutex& mutex = *new std::mutex;
std::vector<LedgerEntry>& entries = *new std::vector<LedgerEntry>;
std::uint16_t operation = 0;  // since the process began
bool counting = false;        // the accesses of an operation

void enter(LedgerEntry entry) {
  const std::lock_guard lock(mutex);
  entries.push_back(std::move(entry));
  if (++operation == 0) {
    std::fprintf(stderr, "emulator: a ledger has no room for more than 65535 operations\n");
    std::abort();
  }
}

}  // namespace

void open_ledger() {
  const std::lock_guard lock(mutex);
  entries.clear();
  ledger_open = true;
}

std::vector<LedgerEntry> close_ledger() {
  const std::lock_guard lock(mutex);
  ledger_open = false;
  return std::exchange(entries, {});
}

void enter_library_call(LedgerEntry entry) {
  if (ledger_open) enter(std::move(entry));
}

void ledger_begin(const char* name) {
  counting = name != nullptr;
  if (ledger_open && counting) enter({.name = name});
}

void ledger_launch(const Launch& launch) {
  if (!ledger_open || entries.empty()) return;
  entries.back().grid = launch.grid;
  entries.back().block = launch.block;
}

void ledger_count(const void* address, std::size_t bytes, bool write) {
  if (!counting || !in_device_range(address) || bytes == 0 || entries.empty()) return;
  static Sector* const sectors = map_sectors();
  LedgerEntry& entry = entries.back();
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(address) - device_base;
  for (std::uintptr_t i = at / kSector; i <= (at + bytes - 1) / kSector; ++i) {
    Sector& sector = sectors[i];
    if (write) {
      if (sector.writer != operation) entry.written += kSector;
      sector.writer = operation;
    } else if (sector.reader != operation && sector.writer != operation) {
      entry.read += kSector;
      sector.reader = operation;
    }
  }
}

}  // namespace emulator
