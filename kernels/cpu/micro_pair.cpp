#include "kernels/cpu/micro_impl.h"

#if defined(__AVX512BF16__)
template void ferrite::kernels::cpu::run_micro(const Micro<Pair>&, int, int, Rows);
#endif
