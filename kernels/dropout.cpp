#include "kernels/dropout.h"

#include "kernels/cpu/dropout.h"
#include "kernels/cuda/dropout.h"
#include "kernels/launch.h"

namespace ferrite::kernels {

void dropout(const Stream& stream, const View& out, const View& in, PhiloxState state, double p) {
  launch(
      stream, "dropout", [=] { cpu::dropout(out, in, state, p); },
      [&] { cuda::dropout(stream, out, in, state, p); });
}

}  // namespace ferrite::kernels
