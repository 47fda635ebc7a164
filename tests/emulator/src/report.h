// Reports of errors in kernels or host code, on standard error.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>

namespace emulator {

/// The position of the running kernel, if any: its name, launch, block and thread.
void print_kernel_place(std::FILE* out);

/// "kernel.cu:12 (function)" of an instruction, through inlined functions of the emulator.
void print_source(std::FILE* out, const void* pc);

/// Prints the error and the position of the kernel, then ends the program.
[[noreturn]] void fatal(const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

/// Reports that an access of the running kernel is not aligned to its size.
[[noreturn]] void report_misaligned(const void* address, std::size_t bytes, bool write,
                                    const void* pc);

/// Counts an error after which the program continues; it will end with exit code 66.
void count_finding();

/// Installs the exit handler for errors, and the fault handlers.
void explain_findings();

/// Installs the fault handlers again, before handlers that others have installed since.
void explain_faults();

}  // namespace emulator
