// Tensor-core operations and matrix loads as warp collectives. Fragments are distributed over the
// lanes as in the PTX ISA (matrix fragments for mma.m16n8k16 and .m16n8k8; ldmatrix).
#pragma once

#include <cstdint>

#include "ferrite/emulator/warp.h"

namespace emulator {

enum class MmaType { f16, bf16 };

/// d += a b; a is 16x16 and b 16x8 of `type`, two to a register; d is 16x8 of float.
void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], MmaType type,
                  EMULATOR_SITE);

/// The same with operands of 16x8 and 8x8, of float; tensor cores read only the upper 19 bits.
void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], EMULATOR_SITE);

/// ldmatrix .x1, .x2 or .x4 of 8x8 matrices of 16-bit elements: lane 8 i + r gives the address of
/// row r of matrix i (16 bytes, aligned); each lane receives two elements of every matrix.
template <int kCount>
void load_matrices(unsigned (&registers)[kCount], const void* row, bool transpose, EMULATOR_SITE);

void exchange_matrices(unsigned* registers, const std::uint16_t (&row)[8], int count,
                       bool transpose, const char* file, int line);

template <int kCount>
void load_matrices(unsigned (&registers)[kCount], const void* row, bool transpose, const char* file,
                   int line) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  std::uint16_t mine[8] = {};
  if (thread_rank() % 32 < 8 * kCount) {
    if (reinterpret_cast<std::uintptr_t>(row) % 16)
      fail(file, line, "ldmatrix: row address %p is not aligned to 16 bytes", row);
    const auto* const source = static_cast<const std::uint16_t*>(row);
    for (int i = 0; i < 8; ++i) mine[i] = source[i];
  }
  exchange_matrices(registers, mine, kCount, transpose, file, line);
}

}  // namespace emulator
