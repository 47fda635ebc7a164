#include "ferrite/kernels/cpu/conv/run.h"

template void ferrite::kernels::cpu::run_conv<ferrite::BFloat16>(const ConvCall&, ConvMethod);
