// Fibers: separate stacks, and switching between them.
#pragma once

#include <cstddef>

namespace emulator {

struct Fiber {
  void* stack_pointer = nullptr;  // saved while it does not run
  const void* bottom = nullptr;   // lowest address of the stack, which grows downwards
  std::size_t size = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's
  void* context = nullptr;     // the portable switch's
};

/// A fiber that runs `entry` when it is first switched to; `entry` never returns.
Fiber* new_fiber(void (*entry)());

/// Makes an abandoned fiber start from the beginning.
void restart_fiber(Fiber& fiber, void (*entry)());

/// Continues in `to`; returns when another switch leads back to `from`.
void switch_fiber(Fiber& from, Fiber& to);

/// Call it first in `entry`.
void fiber_started();

}  // namespace emulator
