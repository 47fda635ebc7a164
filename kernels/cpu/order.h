#pragma once

#include "ferrite/kernels/order.h"

namespace ferrite::kernels::cpu {

void arg_extremum(Extremum kind, const View& values, const View& indices, const View& in, int dim);
void sort(Extremum first, const View& values, const View& indices, const View& in, int dim);
void cumsum(const View& out, const View& in, int dim);

}  // namespace ferrite::kernels::cpu
