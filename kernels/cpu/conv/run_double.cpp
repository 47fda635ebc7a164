#include "ferrite/kernels/cpu/conv/run.h"

template void ferrite::kernels::cpu::run_conv<double>(const ConvCall&, ConvMethod);
