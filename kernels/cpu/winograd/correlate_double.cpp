#include "ferrite/kernels/cpu/winograd/correlate.h"

template void ferrite::kernels::cpu::winograd::correlate(const Problem<double>&);
