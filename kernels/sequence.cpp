#include "ferrite/kernels/sequence.h"

#include "ferrite/kernels/cpu/sequence.h"
#include "ferrite/kernels/cuda/sequence.h"
#include "ferrite/kernels/launch.h"

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
