#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/order.h"

namespace ferrite::kernels::cuda {

void arg_extremum(const Stream& stream, Extremum kind, const View& values, const View& indices,
                  const View& in, int dim);
void sort(const Stream& stream, Extremum first, const View& values, const View& indices,
          const View& in, int dim);
void cumsum(const Stream& stream, const View& out, const View& in, int dim);

}  // namespace ferrite::kernels::cuda
