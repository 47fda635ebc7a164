// Findings: what a kernel or the host did wrong, said on standard error.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>

namespace emulator {

/// Where the running kernel is, if one runs: its name, launch, block and thread.
void print_kernel_place(std::FILE* out);

/// "kernel.cu:12 (function)" of an instruction, through inlined functions of the emulator.
void print_source(std::FILE* out, const void* pc);

/// Prints the finding and where the kernel is, then ends the program.
[[noreturn]] void fatal(const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

/// The running kernel's access is not aligned to its size.
[[noreturn]] void report_misaligned(const void* address, std::size_t bytes, bool write,
                                    const void* pc);

/// Counts a finding after which the program goes on; it will end with exit code 66.
void count_finding();

/// Installs what ends a program with findings, and what explains faults.
void explain_findings();

/// Installs the latter again, in front of handlers that others have installed meanwhile.
void explain_faults();

}  // namespace emulator
