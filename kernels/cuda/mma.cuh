// Tensor core instructions, each executed by a whole warp. The distribution of matrices over its
// lanes is described in the PTX ISA, "Matrix Fragments for mma.m16n8k16" and "ldmatrix".
#pragma once

#include <type_traits>

#include "ferrite/core/half.h"
#include "ferrite/kernels/cuda/async_copy.cuh"

namespace ferrite::kernels::cuda {

/// sum += a b, with a [16, 16] and b [16, 8] of S, two elements per register, and sum [16, 8] of
/// float.
template <class S>
__device__ __forceinline__ void multiply_fragments(float (&sum)[4], const unsigned (&a)[4],
                                                   const unsigned (&b)[2]) {
  constexpr bool kHalf = std::is_same_v<S, Half>;
  static_assert(kHalf || std::is_same_v<S, BFloat16>);
#if defined(FERRITE_EMULATOR)
  emulator::mma_m16n8k16(sum, a, b, kHalf ? emulator::MmaType::f16 : emulator::MmaType::bf16);
#elif defined(__CUDA_ARCH__)
  if constexpr (kHalf)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/// Four 8x8 matrices of 16-bit elements from shared memory: lane 8 i + r passes the address of row
/// r of matrix i, which has 16 bytes and is aligned to 16. Lane 4 r + c receives elements 2 c and 2
/// c + 1 of each matrix's row r; `Transpose`: of its column r.
template <bool Transpose, class S>
__device__ __forceinline__ void load_fragments(unsigned (&fragments)[4], const S* row) {
  static_assert(sizeof(S) == 2);
#if defined(FERRITE_EMULATOR)
  emulator::load_matrices(fragments, row, Transpose);
#elif defined(__CUDA_ARCH__)
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (Transpose)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragments[0]), "=r"(fragments[1]), "=r"(fragments[2]), "=r"(fragments[3])
                 : "r"(shared)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragments[0]), "=r"(fragments[1]), "=r"(fragments[2]), "=r"(fragments[3])
                 : "r"(shared)
                 : "memory");
#endif
}

}  // namespace ferrite::kernels::cuda
