#include "ferrite/kernels/order.h"

#include "ferrite/kernels/cpu/order.h"
#include "ferrite/kernels/cuda/order.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void arg_extremum(const Stream& stream, Extremum kind, const View& values, const View& indices,
                  const View& in, int dim) {
  launch(
      stream, "arg_extremum", [=] { cpu::arg_extremum(kind, values, indices, in, dim); },
      [&] { cuda::arg_extremum(stream, kind, values, indices, in, dim); });
}
void sort(const Stream& stream, Extremum first, const View& values, const View& indices,
          const View& in, int dim) {
  launch(
      stream, "sort", [=] { cpu::sort(first, values, indices, in, dim); },
      [&] { cuda::sort(stream, first, values, indices, in, dim); });
}
void cumsum(const Stream& stream, const View& out, const View& in, int dim) {
  launch(
      stream, "cumsum", [=] { cpu::cumsum(out, in, dim); },
      [&] { cuda::cumsum(stream, out, in, dim); });
}

}  // namespace ferrite::kernels
