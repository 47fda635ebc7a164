// Stacks of their own, and the switch from one to another.
#pragma once

#include <cstddef>

namespace emulator {

struct Fiber {
  void* stack_pointer = nullptr;  // while it does not run
  const void* bottom = nullptr;   // of the stack, which grows down towards it
  std::size_t size = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's
  void* context = nullptr;     // the portable switch's
};

/// A fiber that will run `entry` when it is first switched to; `entry` never returns.
Fiber* new_fiber(void (*entry)());

/// Makes an abandoned fiber start anew.
void restart_fiber(Fiber& fiber, void (*entry)());

/// Goes on in `to`; returns when somebody switches back to `from`.
void switch_fiber(Fiber& from, Fiber& to);

/// To be called first thing in `entry`.
void fiber_started();

}  // namespace emulator
