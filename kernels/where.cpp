#include "ferrite/kernels/where.h"

#include "ferrite/kernels/cpu/where.h"
#include "ferrite/kernels/cuda/where.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void where(const Stream& stream, const View& out, const View& condition, const View& a,
           const View& b) {
  launch(
      stream, "where", [=] { cpu::where(out, condition, a, b); },
      [&] { cuda::where(stream, out, condition, a, b); });
}

}  // namespace ferrite::kernels
