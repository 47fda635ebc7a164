#include "ferrite/kernels/cpu/conv/run.h"

template void ferrite::kernels::cpu::run_conv<float>(const ConvCall&, ConvMethod);
