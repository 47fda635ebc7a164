#include "ferrite/kernels/cpu/micro_impl.h"

template void ferrite::kernels::cpu::run_micro(const Micro<float>&, int, int, Rows);
template void ferrite::kernels::cpu::run_dots(const Dots<float>&, int, int);
