#include "ferrite/kernels/reduce.h"

#include "ferrite/kernels/cpu/reduce.h"
#include "ferrite/kernels/cuda/reduce.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void reduce(const Stream& stream, ReduceOp op, const View& out, const View& in, double p) {
  launch(
      stream, "reduce", [=] { cpu::reduce(op, out, in, p); },
      [&] { cuda::reduce(stream, op, out, in, p); });
}

}  // namespace ferrite::kernels
