#include "ferrite/tests/emulator/src/async_copy.h"

#include <cstring>
#include <vector>

#include "ferrite/tests/emulator/src/block_state.h"
#include "ferrite/tests/emulator/src/ledger.h"
#include "ferrite/tests/emulator/src/race.h"
#include "ferrite/tests/emulator/src/report.h"
#include "ferrite/tests/emulator/src/scheduler.h"
#include "ferrite/tests/emulator/src/settings.h"

namespace emulator {

namespace {

struct Copy {
  unsigned char* to;
  std::size_t bytes;
  unsigned char data[16];
  const void* pc;  // where the kernel issued it
};

/// One thread's copies in the order of issue, and their number in each committed group.
struct Pending {
  std::vector<Copy> copies;
  std::vector<std::size_t> groups;
  std::size_t open = 0;  // copies not in a group yet
};

bool in_use = false;  // since the block began
std::vector<Pending>& pending = *new std::vector<Pending>(BlockState::kMaxThreads);

void finish(Pending& p, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    race_write(p.copies[i].to, p.copies[i].bytes, p.copies[i].pc);
    std::memcpy(p.copies[i].to, p.copies[i].data, p.copies[i].bytes);
  }
  p.copies.erase(p.copies.begin(), p.copies.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace

void async_copy(void* shared, const void* global, std::size_t bytes, std::size_t source_bytes) {
  const Launch& launch = *running_launch();
  if (bytes != 4 && bytes != 8 && bytes != 16)
    fatal(launch.file, launch.line, "cp.async of %zu bytes; 4, 8 and 16 exist", bytes);
  if (reinterpret_cast<std::uintptr_t>(shared) % bytes ||
      reinterpret_cast<std::uintptr_t>(global) % bytes)
    fatal(launch.file, launch.line, "cp.async of %zu bytes from %p to %p is not aligned", bytes,
          global, shared);
  in_use = true;
  Pending& p = pending[thread_rank()];
  Copy copy{static_cast<unsigned char*>(shared), bytes, {}, __builtin_return_address(0)};
  std::memcpy(copy.data, global, source_bytes < bytes ? source_bytes : bytes);
  p.copies.push_back(copy);
  ++p.open;
  race_write(shared, bytes, copy.pc);
  if (ledger_open) ledger_count(global, source_bytes < bytes ? source_bytes : bytes, false);
  if (current_settings.poison) std::memset(shared, 0xff, bytes);
}

void async_commit() {
  Pending& p = pending[thread_rank()];
  p.groups.push_back(p.open);
  p.open = 0;
}

void async_wait(int groups_in_flight) {
  Pending& p = pending[thread_rank()];
  std::size_t count = 0, groups = 0;
  for (; p.groups.size() - groups > static_cast<std::size_t>(groups_in_flight); ++groups)
    count += p.groups[groups];
  p.groups.erase(p.groups.begin(), p.groups.begin() + static_cast<std::ptrdiff_t>(groups));
  finish(p, count);
}

void drop_async_copies() {
  if (!in_use) return;
  for (Pending& p : pending) p = {};
  in_use = false;
}

}  // namespace emulator
