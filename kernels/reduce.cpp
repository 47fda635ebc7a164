#include "kernels/reduce.h"

#include "kernels/cpu/reduce.h"
#include "kernels/cuda/reduce.h"
#include "kernels/launch.h"

namespace ferrite::kernels {

void reduce(const Stream& stream, ReduceOp op, const View& out, const View& in, double p) {
  launch(
      stream, "reduce", [=] { cpu::reduce(op, out, in, p); },
      [&] { cuda::reduce(stream, op, out, in, p); });
}

}  // namespace ferrite::kernels
