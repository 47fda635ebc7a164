#include "ferrite/tests/emulator/src/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "ferrite/tests/emulator/src/sanitizer.h"

#if defined(__x86_64__) && !defined(FERRITE_EMULATOR_UCONTEXT)
#define FERRITE_EMULATOR_X86 1
extern "C" void ferrite_emulator_switch(void** save, void* load);
// Saves the callee-saved registers of the System V ABI, switches stacks, and restores those of the
// other. The control words of the FPU and of SSE are not switched: kernels do not change them.
asm(R"(
  .text
  .p2align 4
  .globl ferrite_emulator_switch
  .hidden ferrite_emulator_switch
  .type ferrite_emulator_switch, @function
ferrite_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size ferrite_emulator_switch, .-ferrite_emulator_switch
)");
#endif

namespace emulator {

namespace {

constexpr std::size_t kStackBytes = 256 << 10;

Fiber* previous = nullptr;  // the fiber left last: only one kernel runs at a time

/// Called in the fiber just entered.
void finish_switch(void* fake_stack) {
  const void* bottom = nullptr;
  std::size_t size = 0;
  if (!__sanitizer_finish_switch_fiber) return;
  __sanitizer_finish_switch_fiber(fake_stack, &bottom, &size);
  if (previous && !previous->bottom) {  // the stack of an operating system thread: now it is known
    previous->bottom = bottom;
    previous->size = size;
  }
}

}  // namespace

void restart_fiber(Fiber& fiber, void (*entry)()) {
  permit(fiber.bottom, fiber.size);
#ifdef FERRITE_EMULATOR_X86
  // As if `entry` had been called: its return address lies 8 above a multiple of 16.
  auto** top = reinterpret_cast<void**>(
      const_cast<char*>(static_cast<const char*>(fiber.bottom) + fiber.size));
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  fiber.stack_pointer = top;
#else
  auto* const context = static_cast<ucontext_t*>(fiber.context);
  getcontext(context);
  context->uc_stack.ss_sp = const_cast<void*>(fiber.bottom);
  context->uc_stack.ss_size = fiber.size;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
#endif
}

Fiber* new_fiber(void (*entry)()) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("emulator: no memory for a fiber's stack");
    std::abort();
  }
  mprotect(memory, page, PROT_NONE);  // an overflow faults
  auto* const fiber = new Fiber;
  fiber->bottom = static_cast<char*>(memory) + page;
  fiber->size = kStackBytes;
#ifndef FERRITE_EMULATOR_X86
  fiber->context = new ucontext_t;
#endif
  restart_fiber(*fiber, entry);
  return fiber;
}

void switch_fiber(Fiber& from, Fiber& to) {
  previous = &from;
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.size);
#ifdef FERRITE_EMULATOR_X86
  ferrite_emulator_switch(&from.stack_pointer, to.stack_pointer);
#else
  if (!from.context) from.context = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(from.context), static_cast<ucontext_t*>(to.context));
#endif
  finish_switch(from.fake_stack);
}

void fiber_started() { finish_switch(nullptr); }

}  // namespace emulator
