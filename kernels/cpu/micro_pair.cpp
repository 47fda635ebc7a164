#include "kernels/cpu/vector.h"

#if defined(__AVX512F__) && !defined(__AVX512BF16__) && defined(__GNUC__) && !defined(__clang__)
// For machines that have it, whatever the rest is compiled for (pair_products()).
#pragma GCC target("avx512bf16")
#endif
#include "kernels/cpu/micro_impl.h"

#if defined(__AVX512BF16__)
template void ferrite::kernels::cpu::run_micro(const Micro<Pair>&, int, int, Rows);
#endif
