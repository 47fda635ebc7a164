#include "ferrite/kernels/range.h"

#include "ferrite/kernels/cpu/range.h"
#include "ferrite/kernels/cuda/range.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void check_range(const Stream& stream, const char* op, const View& in, double low, double high) {
  launch(
      stream, op, [=] { cpu::check_range(op, in, low, high); },
      [&] { cuda::check_range(stream, op, in, low, high); });
}

}  // namespace ferrite::kernels
