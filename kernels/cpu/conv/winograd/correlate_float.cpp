#include "ferrite/kernels/cpu/conv/winograd/correlate.h"

template void ferrite::kernels::cpu::winograd::correlate(const Problem<float>&, int, int);
