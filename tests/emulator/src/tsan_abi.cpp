// The calls that g++ -fsanitize=thread inserts into code: each load and store, each atomic, the
// start and the end of each function.
#ifdef FERRITE_EMULATOR_RACE
#include <cstddef>
#include <cstdint>

#include "ferrite/emulator/arithmetic.h"
#include "ferrite/emulator/warp.h"
#include "ferrite/tests/emulator/src/ledger.h"
#include "ferrite/tests/emulator/src/memory.h"
#include "ferrite/tests/emulator/src/race.h"
#include "ferrite/tests/emulator/src/report.h"
#include "ferrite/tests/emulator/src/scheduler.h"
#include "ferrite/tests/emulator/src/settings.h"

using emulator::AccessKind;
using emulator::race_access;

#define CALLER __builtin_return_address(0)

namespace {

/// Whether the address is in device or shared memory. Most accesses of a kernel are to its threads'
/// own variables, which are not looked at.
inline bool watched(const volatile void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return emulator::in_device_range(const_cast<const void*>(address)) ||
         at - reinterpret_cast<std::uintptr_t>(emulator::shared_arena) <
             emulator::kSharedArenaBytes;
}

[[gnu::noinline]] void watched_access(const void* address, std::size_t bytes, bool write,
                                      const void* pc) {
  if (!emulator::current_settings.races && !emulator::ledger_open) return;
  // As on a GPU, where an access that is not aligned to its size is an error.
  if (emulator::inside_kernel && reinterpret_cast<std::uintptr_t>(address) % bytes) [[unlikely]]
    emulator::report_misaligned(address, bytes, write, pc);
  race_access(address, bytes, write, AccessKind::plain, pc);
}
inline void aligned_access(const void* address, std::size_t bytes, bool write, const void* pc) {
  if (watched(address) || reinterpret_cast<std::uintptr_t>(address) % bytes)
    watched_access(address, bytes, write, pc);
}

template <class T>
void atomic_access(const volatile T* address, bool write, const void* pc) {
  if (watched(address))
    race_access(const_cast<const T*>(address), sizeof(T), write, AccessKind::atomic, pc);
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define ACCESSES(bytes)                                                         \
  void __tsan_read##bytes(void* p) { aligned_access(p, bytes, false, CALLER); } \
  void __tsan_write##bytes(void* p) { aligned_access(p, bytes, true, CALLER); } \
  void __tsan_volatile_read##bytes(void* p) {                                   \
    atomic_access(static_cast<char(*)[bytes]>(p), false, CALLER);               \
  }                                                                             \
  void __tsan_volatile_write##bytes(void* p) {                                  \
    atomic_access(static_cast<char(*)[bytes]>(p), true, CALLER);                \
  }                                                                             \
  void __tsan_unaligned_read##bytes(void* p) {                                  \
    race_access(p, bytes, false, AccessKind::plain, CALLER);                    \
  }                                                                             \
  void __tsan_unaligned_write##bytes(void* p) {                                 \
    race_access(p, bytes, true, AccessKind::plain, CALLER);                     \
  }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
#undef ACCESSES

void __tsan_read_range(void* p, std::size_t bytes) {
  race_access(p, bytes, false, AccessKind::plain, CALLER);
}
void __tsan_write_range(void* p, std::size_t bytes) {
  race_access(p, bytes, true, AccessKind::plain, CALLER);
}

// Device code uses relaxed atomics; fences express ordering. Host code in the same file may require
// more, so the real operation has the strongest order.
#define ATOMICS(bits, T)                                                                           \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                                         \
    atomic_access(p, false, CALLER);                                                               \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile T* p, T value, int) {                                  \
    atomic_access(p, true, CALLER);                                                                \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected, T value, int,      \
                                                    int) {                                         \
    atomic_access(p, true, CALLER);                                                                \
    return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST,                \
                                       __ATOMIC_SEQ_CST);                                          \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* expected, T value, int, int) { \
    atomic_access(p, true, CALLER);                                                                \
    return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST,                \
                                       __ATOMIC_SEQ_CST);                                          \
  }                                                                                                \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T expected, T value, int, int) {     \
    atomic_access(p, true, CALLER);                                                                \
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);   \
    return expected;                                                                               \
  }
#define ATOMIC_UPDATE(bits, T, name, builtin)                   \
  T __tsan_atomic##bits##_##name(volatile T* p, T value, int) { \
    atomic_access(p, true, CALLER);                             \
    return builtin(p, value, __ATOMIC_SEQ_CST);                 \
  }
#define ATOMIC_UPDATES(bits, T)                         \
  ATOMICS(bits, T)                                      \
  ATOMIC_UPDATE(bits, T, exchange, __atomic_exchange_n) \
  ATOMIC_UPDATE(bits, T, fetch_add, __atomic_fetch_add) \
  ATOMIC_UPDATE(bits, T, fetch_sub, __atomic_fetch_sub) \
  ATOMIC_UPDATE(bits, T, fetch_and, __atomic_fetch_and) \
  ATOMIC_UPDATE(bits, T, fetch_or, __atomic_fetch_or)   \
  ATOMIC_UPDATE(bits, T, fetch_xor, __atomic_fetch_xor) \
  ATOMIC_UPDATE(bits, T, fetch_nand, __atomic_fetch_nand)
ATOMIC_UPDATES(8, std::uint8_t)
ATOMIC_UPDATES(16, std::uint16_t)
ATOMIC_UPDATES(32, std::uint32_t)
ATOMIC_UPDATES(64, std::uint64_t)
#undef ATOMIC_UPDATES
#undef ATOMIC_UPDATE
#undef ATOMICS

void __tsan_atomic_thread_fence(int) {
  if (emulator::inside_kernel) emulator::race_fence();
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"
#endif
