#include "ferrite/tests/emulator/src/report.h"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "ferrite/emulator/block.h"
#include "ferrite/emulator/emulator.h"
#include "ferrite/emulator/warp.h"
#include "ferrite/tests/emulator/src/memory.h"
#include "ferrite/tests/emulator/src/sanitizer.h"
#include "ferrite/tests/emulator/src/scheduler.h"

namespace emulator {

namespace {

std::atomic<int> finding_count{0};

void end_with_findings() {
  check_all_guards();
  if (finding_count == 0) return;
  std::fflush(stdout);
  std::fprintf(stderr, "emulator: %d findings\n", finding_count.load());
  std::fflush(stderr);
  std::_Exit(66);
}

struct sigaction before[NSIG];  // previous handlers of the signals

/// Reports the accessed memory, then passes the signal to the previous handler.
void on_fault(int signal, siginfo_t* info, void*) {
  static volatile sig_atomic_t entered = 0;
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  // The previous handler may in turn call this one.
  sigaction(signal, entered ? &plain : &before[signal], nullptr);
  if (entered) {
    raise(signal);
    return;
  }
  entered = 1;
  // Raised again by another handler: the address is lost.
  const void* const address = info->si_code > 0 ? info->si_addr : nullptr;
  if (running_here()) {
    std::fprintf(stderr, "emulator: the kernel touched address %p, where nothing is\n", address);
    print_kernel_place(stderr);
  } else if (in_device_range(address)) {
    std::fprintf(stderr, "emulator: host code touched device memory at %p\n", address);
  }
  describe_address(stderr, address);
  std::fflush(stderr);
  if (info->si_code <= 0) raise(signal);
}

void on_sanitizer_report(const char*) {
  const void* const address = __asan_get_report_address ? __asan_get_report_address() : nullptr;
  if (running_here()) print_kernel_place(stderr);
  describe_address(stderr, address);
}

}  // namespace

// Called by the undefined-behaviour sanitizer, if present, before its report.
extern "C" void __ubsan_on_report() {
  if (running_here()) print_kernel_place(stderr);
}

void count_finding() { ++finding_count; }
int findings() { return finding_count; }

void explain_findings() {
  std::atexit(end_with_findings);
  if (__asan_set_error_report_callback)
    __asan_set_error_report_callback(on_sanitizer_report);
  else
    explain_faults();
}

void explain_faults() {
  static char stack[64 << 10];
  stack_t alternate = {};
  if (sigaltstack(nullptr, &alternate) == 0 && (alternate.ss_flags & SS_DISABLE)) {
    alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, nullptr);
  }
  for (const int signal : {SIGSEGV, SIGBUS}) {
    struct sigaction now = {};
    sigaction(signal, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault) continue;
    before[signal] = now;
    now = {};
    now.sa_sigaction = on_fault;
    now.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(signal, &now, nullptr);
  }
}

void print_kernel_place(std::FILE* out) {
  const Launch* const launch = running_launch();
  if (!launch) return;
  std::fprintf(out,
               "emulator: in kernel %s<<<(%u,%u,%u), (%u,%u,%u), %zu>>> launched at %s:%d, block "
               "(%u,%u,%u), thread (%u,%u,%u)\n",
               launch->name, launch->grid.x, launch->grid.y, launch->grid.z, launch->block.x,
               launch->block.y, launch->block.z, launch->shared_bytes, launch->file, launch->line,
               blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
}

namespace {
/// Whether "file:line" is in a header of the emulator or of NVIDIA, which kernels call.
bool is_inner(const char* place) {
  for (const char* name : {"atomics.h:", "warp.h:", "arithmetic.h:", "half.h:", "bfloat16.h:",
                           "mma.h:", "block.h:", "cuda_fp16.h", "cuda_bf16.h", "??:"})
    if (!std::strncmp(place, name, std::strlen(name))) return true;
  return false;
}
}  // namespace

void print_source(std::FILE* out, const void* pc) {
  Dl_info info;
  if (!pc || !dladdr(pc, &info) || !info.dli_fname) {
    std::fprintf(out, "an unknown place\n");
    return;
  }
  // The return address is one instruction past the call.
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(pc) -
                                               static_cast<const char*>(info.dli_fbase)) -
                      1;
  char command[1024];
  std::snprintf(command, sizeof command, "addr2line -s -C -f -i -e '%s' %#zx 2>/dev/null",
                info.dli_fname, offset);
  std::FILE* const pipe = popen(command, "r");
  char function[512], place[512], fallback[1100] = "";
  bool found = false;
  // Innermost first: the first frame outside of the emulator's headers is the kernel's.
  while (pipe && !found && std::fgets(function, sizeof function, pipe) &&
         std::fgets(place, sizeof place, pipe)) {
    function[std::strcspn(function, "\n")] = 0;
    place[std::strcspn(place, " \n")] = 0;
    if (found = !is_inner(place); !found && !*fallback)
      std::snprintf(fallback, sizeof fallback, "%s in %s", place, function);
  }
  if (pipe) pclose(pipe);
  if (found)
    std::fprintf(out, "%s in %s\n", place, function);
  else if (*fallback)
    std::fprintf(out, "%s\n", fallback);
  else
    std::fprintf(out, "%s+%#zx\n", info.dli_fname, offset);
}

namespace {
[[noreturn]] void fatal_va(const char* file, int line, const char* format, va_list arguments) {
  std::fflush(stdout);
  std::fprintf(stderr, "emulator: %s:%d: ", file, line);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  if (running_here()) print_kernel_place(stderr);
  std::fflush(stderr);
  std::abort();
}
}  // namespace

void fatal(const char* file, int line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fatal_va(file, line, format, arguments);
}

void report_misaligned(const void* address, std::size_t bytes, bool write, const void* pc) {
  std::fprintf(stderr, "emulator: misaligned %s of %zu bytes at %p, at ", write ? "write" : "read",
               bytes, address);
  print_source(stderr, pc);
  fatal(running_launch()->file, running_launch()->line, "the kernel made a misaligned access");
}

void fail(const char* file, int line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fatal_va(file, line, format, arguments);
}

}  // namespace emulator
