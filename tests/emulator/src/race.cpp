#ifdef FERRITE_EMULATOR_RACE
#include "ferrite/tests/emulator/src/race.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>
#include <unordered_map>

#include "ferrite/tests/emulator/src/block_state.h"
#include "ferrite/tests/emulator/src/ledger.h"
#include "ferrite/tests/emulator/src/memory.h"
#include "ferrite/tests/emulator/src/race_shadow.h"
#include "ferrite/tests/emulator/src/report.h"
#include "ferrite/tests/emulator/src/scheduler.h"
#include "ferrite/tests/emulator/src/settings.h"
#include "ferrite/tests/emulator/src/shared_memory.h"

namespace emulator {

namespace {

/// An operation that has run. Its number marks the accesses.
struct Work {
  WorkId id;
  const char* name;
  const char* file;
  int line;
};
std::deque<Work>& work = *new std::deque<Work>(1);  // 0 means none

// The running operation and block.
std::uint32_t work_now = 0, block_now = 0;
std::uint32_t epoch = 0;  // barriers since the block began
std::uint16_t warp_epochs[32];

/// A block's accesses before its last fence are visible to code that sees an atomic that the block
/// did afterwards.
struct Fence {
  std::uint32_t epoch = 0;  // of the fence
  std::uint32_t thread = 0;
  bool any = false, many = false;  // whether one thread fenced in that epoch, or several

  bool covers(const Access& access) const {
    return access.epoch < epoch || (access.epoch == epoch && (many || access.thread == thread));
  }
};
Fence fence_now;

/// For an atomic variable: the blocks that fenced and then changed it, in order.
struct Releases {
  struct Release {
    std::size_t rank;
    Fence fence;
  };
  std::unordered_map<std::uint32_t, Release> by_block;
};
std::unordered_map<std::uintptr_t, Releases>& releases =
    *new std::unordered_map<std::uintptr_t, Releases>;
/// What the running block has seen: the first `count` releases of a variable.
struct Acquired {
  const Releases* from;
  std::size_t count;
};
std::vector<Acquired>& acquired = *new std::vector<Acquired>;

bool visible_through_fence(const Access& old) {
  return std::any_of(acquired.begin(), acquired.end(), [&](const Acquired& a) {
    const auto it = a.from->by_block.find(old.block);
    return it != a.from->by_block.end() && it->second.rank < a.count &&
           it->second.fence.covers(old);
  });
}

void synchronize_through(std::uintptr_t address, bool write) {
  if (const auto it = releases.find(address); it != releases.end())
    acquired.push_back({&it->second, it->second.by_block.size()});
  if (!fence_now.any || !write) return;
  Releases& variable = releases[address];
  const std::size_t rank = variable.by_block.size();
  variable.by_block.try_emplace(block_now, Releases::Release{rank, {}}).first->second.fence =
      fence_now;
}

/// Whether two accesses to the same bytes, at least one of them a write, are unordered.
bool conflict(const Access& old, const Access& now, bool shared) {
  if (old.work == 0 || !(old.bytes & now.bytes)) return false;
  if ((old.flags & now.flags) & Access::kAtomic) return false;
  if (old.work != now.work) return !shared && !work[work_now].id.comes_after(work[old.work].id);
  if (old.block != now.block) return !shared && !visible_through_fence(old);
  if (old.epoch < now.epoch) return false;
  const bool same_warp = old.thread / 32 == now.thread / 32;
  if (same_warp && old.warp_epoch < now.warp_epoch) return false;
  // Of several threads' atomics only the last is recorded.
  return old.thread != now.thread || (old.flags & Access::kSeveral);
}

struct Where {
  std::uintptr_t address;
  bool shared;
};

void print_thread(std::FILE* out, const Access& a) {
  const Work& w = work[a.work];
  if (!w.file) {
    std::fprintf(out, "by %s", w.name);
    return;
  }
  if (a.work == work_now && running_launch()) {
    const Launch& l = *running_launch();
    std::fprintf(out, "by block (%u,%u,%u) thread (%u,%u,%u)", a.block % l.grid.x,
                 a.block / l.grid.x % l.grid.y, a.block / l.grid.x / l.grid.y, a.thread % l.block.x,
                 a.thread / l.block.x % l.block.y, a.thread / (l.block.x * l.block.y));
  } else {
    std::fprintf(out, "by kernel %s launched at %s:%d, block %u thread %u", w.name, w.file, w.line,
                 a.block, a.thread);
  }
  std::fprintf(out, " at ");
  print_source(out, a.instruction());
}

const char* kind_of(const Access& a, bool write) {
  if (a.flags & Access::kAtomic) return "atomic";
  return write ? "write" : "read";
}

[[gnu::noinline, gnu::cold]] void report(const Where& where, const Access& old, bool old_writes,
                                         const Access& now, bool now_writes) {
  constexpr int kMostReports = 20;
  static std::set<std::pair<std::uint32_t, std::uint32_t>>& seen =
      *new std::set<std::pair<std::uint32_t, std::uint32_t>>;
  if (!seen.insert({old.pc, now.pc}).second) return;
  count_finding();
  if (seen.size() > kMostReports) return;
  const Work& w = work[work_now];
  std::fflush(stdout);
  std::fprintf(stderr, "emulator: RACE in %s", w.name);
  if (w.file) std::fprintf(stderr, " launched at %s:%d", w.file, w.line);
  if (where.shared)
    describe_shared(stderr, where.address);
  else
    std::fprintf(stderr, ", on device memory\n");
  std::fprintf(stderr, "  %s ", kind_of(now, now_writes));
  print_thread(stderr, now);
  std::fprintf(stderr, "%s  earlier %s ", w.file ? "" : "\n", kind_of(old, old_writes));
  print_thread(stderr, old);
  if (!work[old.work].file) std::fputc('\n', stderr);
  if (!where.shared) describe_address(stderr, reinterpret_cast<const void*>(where.address));
  if (old.work != now.work)
    std::fprintf(stderr, "  nothing orders the two: no event, no synchronization\n");
  std::fflush(stderr);
}

/// Keeps two reads, by threads of different warps if possible: one of them then conflicts with any
/// thread that writes.
void remember_read(Cell& cell, const Access& now) {
  const auto same = [&](const Access& a) { return a.block == now.block && a.thread == now.thread; };
  const auto over = [&](const Access& a) {
    return a.work != now.work || (a.block == now.block && a.epoch < now.epoch);
  };
  const auto warp = [](const Access& a) { return std::pair(a.block, a.thread / 32); };
  Access &first = cell.reads[0], &second = cell.reads[1];
  if (same(first) || over(first))
    first = now;
  else if (same(second) || over(second))
    second = now;
  else if (warp(first) != warp(second) && warp(first) == warp(now))
    first = now;
  else
    second = now;
}

void check_cell(Cell& cell, const Access& now, const Where& where, bool write) {
  if (conflict(cell.write, now, where.shared)) report(where, cell.write, true, now, write);
  if (!write) {
    remember_read(cell, now);
    return;
  }
  for (const Access& read : cell.reads)
    if (conflict(read, now, where.shared)) report(where, read, false, now, true);
  const Access& before = cell.write;
  const bool several = before.work == now.work && before.block == now.block &&
                       before.epoch == now.epoch && (before.flags & now.flags & Access::kAtomic) &&
                       (before.thread != now.thread || (before.flags & Access::kSeveral));
  cell.write = now;
  if (several) cell.write.flags |= Access::kSeveral;
}

void check_range(std::uintptr_t start, std::size_t bytes, Cell* cells, Access now, bool shared,
                 bool write) {
  const std::uintptr_t end = start + bytes;
  for (std::uintptr_t at = start & ~std::uintptr_t{3}; at < end; at += 4, ++cells) {
    const unsigned low = at < start ? static_cast<unsigned>(start - at) : 0;
    const unsigned high = end - at < 4 ? static_cast<unsigned>(end - at) : 4;
    now.bytes = static_cast<std::uint8_t>((1u << high) - (1u << low));
    check_cell(*cells, now, {at < start ? start : at, shared}, write);
  }
}

// The allocations that the running kernel accessed last.
const Allocation* recent[4] = {};
unsigned recent_next = 0;

/// Checks that all bytes are in one allocation that this device can access; otherwise reports it.
void check_device_bounds(std::uintptr_t at, std::size_t bytes, bool write, const void* pc) {
  for (const Allocation* a : recent)
    if (a && a->contains(at, bytes)) return;
  const auto* const address = reinterpret_cast<const void*>(at);
  const Allocation* const a = find_device(address);
  const bool inside = a && a->live && a->contains(at, bytes);
  if (inside && peer_enabled(running_device(), a->device)) {
    recent[recent_next++ % 4] = a;
    return;
  }
  std::fprintf(stderr, "emulator: %s of %zu bytes %s, at ", write ? "write" : "read", bytes,
               inside ? "in memory of a device without peer access" : "outside of any allocation");
  print_source(stderr, pc);
  describe_address(stderr, address);
  fatal(running_launch()->file, running_launch()->line,
        "the kernel touched memory that is not its own");
}

}  // namespace

void race_work_started(const WorkId& id, const char* name, const char* file, int line) {
  work.push_back({id, name, file, line});
  work_now = static_cast<std::uint32_t>(work.size() - 1);
  block_now = epoch = 0;
}

void race_launch_started() {
  std::fill(std::begin(recent), std::end(recent), nullptr);
  releases.clear();
}

void race_block_started(std::uint64_t rank) {
  block_now = static_cast<std::uint32_t>(rank);
  epoch = 0;
  std::fill(std::begin(warp_epochs), std::end(warp_epochs), std::uint16_t{0});
  fence_now = {};
  acquired.clear();
}

void race_barrier() { ++epoch; }
void race_warp_barrier(int warp) { ++warp_epochs[warp]; }

void race_fence() {
  const std::uint32_t thread = thread_rank();
  const bool another = fence_now.any && fence_now.epoch == epoch && fence_now.thread != thread;
  fence_now = {epoch, thread, true, another || (fence_now.epoch == epoch && fence_now.many)};
}

void race_access(const void* address, std::size_t bytes, bool write, AccessKind kind,
                 const void* pc) {
  if (!inside_kernel) return;
  if (ledger_open) ledger_count(address, bytes, write);
  if (!current_settings.races) return;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const bool shared = at - reinterpret_cast<std::uintptr_t>(shared_arena) < kSharedArenaBytes;
  if (!shared && !in_device_range(address)) return;
  const BlockThread* const thread = block.current;
  if (!thread) return;
  Access now = {};
  now.work = work_now;
  now.block = block_now;
  now.thread = static_cast<std::uint32_t>(thread->rank);
  now.epoch = epoch;
  now.warp_epoch = warp_epochs[thread->warp()];
  now.pc = Access::pack(pc);
  now.flags = kind == AccessKind::atomic ? Access::kAtomic : 0;
  if (shared) {
    check_shared_bounds(at, bytes, write, pc);
    check_range(at, bytes, shared_cell(at), now, true, write);
    return;
  }
  check_device_bounds(at, bytes, write, pc);
  if (kind == AccessKind::atomic) synchronize_through(at, write);
  check_range(at, bytes, device_cell(at), now, false, write);
}

void race_range(const void* address, std::size_t bytes, bool write) {
  // The shadow takes sixteen times the memory: large buffers are recorded only for kernels.
  constexpr std::size_t kMostBytes = 8 << 20;
  if (ledger_open) ledger_count(address, bytes, write);
  if (!current_settings.races || !in_device_range(address) || bytes == 0 || bytes > kMostBytes)
    return;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  Access now = {};
  now.work = work_now;
  check_range(at, bytes, device_cell(at), now, false, write);
}

void race_forget(const void* address, std::size_t bytes) {
  if (!current_settings.races) return;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto* const first = reinterpret_cast<unsigned char*>(device_cell(at));
  auto* const last = reinterpret_cast<unsigned char*>(device_cell(at + bytes));
  // Whole pages are returned to the system, which supplies zeroed ones.
  constexpr std::uintptr_t kPage = 4096;
  auto* const begin = reinterpret_cast<unsigned char*>(
      (reinterpret_cast<std::uintptr_t>(first) + kPage - 1) & ~(kPage - 1));
  auto* const end =
      reinterpret_cast<unsigned char*>(reinterpret_cast<std::uintptr_t>(last) & ~(kPage - 1));
  if (begin >= end) {
    std::memset(first, 0, static_cast<std::size_t>(last - first));
    return;
  }
  std::memset(first, 0, static_cast<std::size_t>(begin - first));
  madvise(begin, static_cast<std::size_t>(end - begin), MADV_DONTNEED);
  std::memset(end, 0, static_cast<std::size_t>(last - end));
}

}  // namespace emulator
#endif
