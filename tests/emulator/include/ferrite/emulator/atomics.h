// Atomics: real ones, with relaxed order like CUDA's. Host threads may share pinned memory with a
// kernel, and the race detector recognizes them by the compiler's calls.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

/// Inlined in every build, so that a report shows the line of the kernel.
#define EMULATOR_INLINE __attribute__((always_inline)) inline

namespace emulator {

/// Replaces *p by f(*p) and returns what was there; T has 2, 4 or 8 bytes.
template <class T, class F>
EMULATOR_INLINE T atomic_update(T* p, F f) {
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  static_assert(sizeof(T) == sizeof(Bits));
  Bits* const address = reinterpret_cast<Bits*>(p);
  Bits before = __atomic_load_n(address, __ATOMIC_RELAXED);
  for (;;) {
    T old, value;
    std::memcpy(static_cast<void*>(&old), &before, sizeof(T));
    value = f(old);
    Bits after;
    std::memcpy(&after, static_cast<const void*>(&value), sizeof(T));
    if (__atomic_compare_exchange_n(address, &before, after, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
      return old;
  }
}

}  // namespace emulator

#define EMULATOR_ATOMIC(name, T, new_value)                                             \
  EMULATOR_INLINE T name(T* address, T value) {                                         \
    return emulator::atomic_update(address, [value](T old) -> T { return new_value; }); \
  }                                                                                     \
  EMULATOR_INLINE T name##_block(T* address, T value) { return name(address, value); }  \
  EMULATOR_INLINE T name##_system(T* address, T value) { return name(address, value); }
#define EMULATOR_ATOMIC_INTEGER(T)                                \
  EMULATOR_ATOMIC(atomicAdd, T, old + value)                      \
  EMULATOR_ATOMIC(atomicSub, T, old - value)                      \
  EMULATOR_ATOMIC(atomicExch, T, (static_cast<void>(old), value)) \
  EMULATOR_ATOMIC(atomicMin, T, old < value ? old : value)        \
  EMULATOR_ATOMIC(atomicMax, T, old < value ? value : old)        \
  EMULATOR_ATOMIC(atomicAnd, T, old& value)                       \
  EMULATOR_ATOMIC(atomicOr, T, old | value)                       \
  EMULATOR_ATOMIC(atomicXor, T, old ^ value)
// Signed sums wrap on the device.
EMULATOR_INLINE int atomicAdd(int* address, int value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
EMULATOR_INLINE int atomicSub(int* address, int value) {
  return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);
}
EMULATOR_ATOMIC(atomicExch, int, (static_cast<void>(old), value))
EMULATOR_ATOMIC(atomicMin, int, old < value ? old : value)
EMULATOR_ATOMIC(atomicMax, int, old < value ? value : old)
EMULATOR_ATOMIC(atomicAnd, int, old& value)
EMULATOR_ATOMIC(atomicOr, int, old | value)
EMULATOR_ATOMIC(atomicXor, int, old ^ value)
EMULATOR_ATOMIC_INTEGER(unsigned)
EMULATOR_ATOMIC_INTEGER(unsigned long long)
EMULATOR_ATOMIC(atomicMin, long long, old < value ? old : value)
EMULATOR_ATOMIC(atomicMax, long long, old < value ? value : old)
EMULATOR_ATOMIC(atomicAdd, float, old + value)
EMULATOR_ATOMIC(atomicAdd, double, old + value)
EMULATOR_ATOMIC(atomicExch, float, (static_cast<void>(old), value))
EMULATOR_ATOMIC(atomicInc, unsigned, old >= value ? 0u : old + 1u)
EMULATOR_ATOMIC(atomicDec, unsigned, (old == 0u || old > value) ? value : old - 1u)
#undef EMULATOR_ATOMIC_INTEGER
#undef EMULATOR_ATOMIC

#define EMULATOR_ATOMIC_CAS(T)                                                     \
  EMULATOR_INLINE T atomicCAS(T* address, T compare, T value) {                    \
    __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, \
                                __ATOMIC_RELAXED);                                 \
    return compare;                                                                \
  }
EMULATOR_ATOMIC_CAS(int)
EMULATOR_ATOMIC_CAS(unsigned)
EMULATOR_ATOMIC_CAS(unsigned long long)
EMULATOR_ATOMIC_CAS(unsigned short)
#undef EMULATOR_ATOMIC_CAS
