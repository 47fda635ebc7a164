#include "ferrite/kernels/cpu/simd.h"

#if defined(__AVX512BF16__)
#define FERRITE_PAIRS
#endif
#if defined(__AVX512F__) && !defined(__AVX512BF16__) && defined(__GNUC__) && !defined(__clang__)
// For machines that have it, whatever the rest is compiled for (pair_products()).
#define FERRITE_PAIRS
#pragma GCC target("avx512bf16")

// simd.h comes before: what it includes must not be compiled for such machines alone.
namespace ferrite::kernels::cpu {
template <>
inline void add_product<Pair>(Vector<float>& sum, const Pair& left, Vector<Pair> right) {
  std::int32_t bits;
  std::memcpy(&bits, &left, sizeof bits);
  sum = (Vector<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(bits),
                                        (__m512bh)right);
}
}  // namespace ferrite::kernels::cpu
#endif
#include "ferrite/kernels/cpu/micro_impl.h"

#if defined(FERRITE_PAIRS)
template void ferrite::kernels::cpu::run_micro(const Micro<Pair>&, int, int, Rows);
#endif
