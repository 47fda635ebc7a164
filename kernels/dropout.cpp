#include "ferrite/kernels/dropout.h"

#include "ferrite/kernels/cpu/dropout.h"
#include "ferrite/kernels/cuda/dropout.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void dropout(const Stream& stream, const View& out, const View& in, PhiloxState state, double p) {
  launch(
      stream, "dropout", [=] { cpu::dropout(out, in, state, p); },
      [&] { cuda::dropout(stream, out, in, state, p); });
}

}  // namespace ferrite::kernels
