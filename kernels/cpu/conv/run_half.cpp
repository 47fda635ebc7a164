#include "ferrite/kernels/cpu/conv/run.h"

template void ferrite::kernels::cpu::run_conv<ferrite::Half>(const ConvCall&, ConvMethod);
