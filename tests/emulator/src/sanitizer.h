// AddressSanitizer's interface, if the program is linked with it; otherwise no-ops.
#pragma once

#include <cstddef>

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void*, std::size_t);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void*, std::size_t);
__attribute__((weak)) void __asan_set_error_report_callback(void (*)(const char*));
__attribute__((weak)) void* __asan_get_report_address(void);
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom,
                                                          std::size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom,
                                                           std::size_t* size);
}

namespace emulator {

inline void forbid(const void* address, std::size_t bytes) {
  if (__asan_poison_memory_region) __asan_poison_memory_region(address, bytes);
}
inline void permit(const void* address, std::size_t bytes) {
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(address, bytes);
}

}  // namespace emulator
