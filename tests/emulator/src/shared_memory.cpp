#include "ferrite/tests/emulator/src/shared_memory.h"

#include <cstring>

#include "ferrite/emulator/block.h"
#include "ferrite/tests/emulator/src/report.h"
#include "ferrite/tests/emulator/src/sanitizer.h"
#include "ferrite/tests/emulator/src/scheduler.h"
#include "ferrite/tests/emulator/src/settings.h"

namespace emulator {

namespace {

constexpr std::size_t kRedZone = 32;
constexpr unsigned char kPoison = 0xff;  // NaN in every floating-point type
constexpr int kMaxArrays = 256;

struct Array {
  std::size_t offset, bytes;
};
Array arrays[kMaxArrays];
int array_count = 0;
std::size_t used = 0;         // of the arena, including red zones
std::size_t array_bytes = 0;  // without red zones
std::size_t dynamic_size = 0;
std::size_t limit_of_launch = 0;
void* dynamic_start = nullptr;

void* take(std::size_t bytes, std::size_t alignment) {
  std::size_t offset = (used + kRedZone + alignment - 1) / alignment * alignment;
  // Exactly the requested alignment, so that a wider access than the type allows is misaligned.
  if (alignment < 128 && offset / alignment % 2 == 0) offset += alignment;
  const std::size_t end = offset + bytes;
  if (end + kRedZone > kSharedArenaBytes || array_count == kMaxArrays) return nullptr;
  arrays[array_count++] = {offset, bytes};
  array_bytes += bytes;
  permit(shared_arena + used, end + kRedZone - used);
  std::memset(shared_arena + used, kPoison, end + kRedZone - used);
  forbid(shared_arena + used, offset - used);
  forbid(shared_arena + end, kRedZone);
  used = end;
  return shared_arena + offset;
}

}  // namespace

/// The bytes in which arrays are allocated.
alignas(4096) unsigned char shared_arena[kSharedArenaBytes];
unsigned long long launch_serial = 0;

void begin_shared_launch(std::size_t dynamic_bytes, std::size_t limit) {
  ++launch_serial;
  limit_of_launch = limit;
  array_count = 0;
  used = array_bytes = 0;
  dynamic_size = dynamic_bytes;
  dynamic_start = dynamic_bytes ? take(dynamic_bytes, 128) : nullptr;
}

void begin_shared_block() {
  if (!current_settings.poison) return;
  for (int i = 0; i < array_count; ++i)
    std::memset(shared_arena + arrays[i].offset, kPoison, arrays[i].bytes);
}

void end_shared_block() {
  for (int i = 0; i < array_count; ++i) {
    const std::size_t end = arrays[i].offset + arrays[i].bytes;
    const unsigned char* const zone = shared_arena + end;
    for (std::size_t k = 0; k < kRedZone && end + k < used + kRedZone; ++k) {
      if (i + 1 < array_count && end + k >= arrays[i + 1].offset) break;
      if (zone[k] != kPoison)
        fatal(running_launch()->file, running_launch()->line,
              "the kernel wrote past a shared array of %zu bytes, at byte %zu", arrays[i].bytes,
              arrays[i].bytes + k);
    }
  }
}

void check_shared_bounds(std::uintptr_t address, std::size_t bytes, bool write, const void* pc) {
  const std::size_t offset = address - reinterpret_cast<std::uintptr_t>(shared_arena);
  for (int i = 0; i < array_count; ++i)
    if (offset >= arrays[i].offset && offset + bytes <= arrays[i].offset + arrays[i].bytes) return;
  std::fprintf(stderr, "emulator: %s of %zu bytes", write ? "write" : "read", bytes);
  describe_shared(stderr, address);
  std::fprintf(stderr, "  at ");
  print_source(stderr, pc);
  fatal(running_launch()->file, running_launch()->line,
        "the kernel touched shared memory outside of its arrays");
}

void describe_shared(std::FILE* out, std::uintptr_t address) {
  const std::size_t offset = address - reinterpret_cast<std::uintptr_t>(shared_arena);
  const Array* below = nullptr;
  for (int i = 0; i < array_count; ++i)
    if (arrays[i].offset <= offset) below = &arrays[i];
  if (below)
    std::fprintf(out, ", on shared memory at byte %zu of an array of %zu bytes\n",
                 offset - below->offset, below->bytes);
  else
    std::fprintf(out, ", on shared memory\n");
}

void refuse_shared(const char* instruction) {
  fatal(running_launch()->file, running_launch()->line,
        "%s of an address in shared memory: it is for global memory alone", instruction);
}

void* dynamic_shared() { return dynamic_start; }
std::size_t dynamic_shared_bytes() { return dynamic_size; }

void* static_shared(std::size_t bytes, std::size_t alignment) {
  void* const array = take(bytes, alignment);
  if (!array || array_bytes - dynamic_size > kStaticSharedLimit || array_bytes > limit_of_launch)
    fatal(running_launch()->file, running_launch()->line,
          "the kernel has %zu bytes of static and %zu of dynamic shared memory, more than a block "
          "can have%s",
          array_bytes - dynamic_size, dynamic_size,
          limit_of_launch < kSharedLimit
              ? " without cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize)"
              : "");
  return array;
}

}  // namespace emulator
