#include "kernels/sequence.h"

#include "kernels/cpu/sequence.h"
#include "kernels/cuda/sequence.h"
#include "kernels/launch.h"

namespace ferrite::kernels {

void arange(const Stream& stream, const View& out, Scalar start, Scalar step) {
  launch(
      stream, "arange", [=] { cpu::arange(out, start, step); },
      [&] { cuda::arange(stream, out, start, step); });
}
void linspace(const Stream& stream, const View& out, double start, double end) {
  launch(
      stream, "linspace", [=] { cpu::linspace(out, start, end); },
      [&] { cuda::linspace(stream, out, start, end); });
}

}  // namespace ferrite::kernels
