#include "ferrite/kernels/copy.h"

#include "ferrite/kernels/cpu/copy.h"
#include "ferrite/kernels/cuda/copy.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void copy(const Stream& stream, const View& out, const View& in) {
  launch(
      stream, "copy", [=] { cpu::copy(out, in); }, [&] { cuda::copy(stream, out, in); });
}
void fill(const Stream& stream, const View& out, Scalar value) {
  launch(
      stream, "fill", [=] { cpu::fill(out, value); }, [&] { cuda::fill(stream, out, value); });
}

}  // namespace ferrite::kernels
