#include "ferrite/kernels/columns.h"

#include "ferrite/kernels/cpu/columns.h"
#include "ferrite/kernels/cuda/columns.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void im2col(const Stream& stream, const View& columns, const View& input,
            const ConvParams& params) {
  launch(
      stream, "im2col", [=] { cpu::im2col(columns, input, params); },
      [&] { cuda::im2col(stream, columns, input, params); });
}
void col2im(const Stream& stream, const View& image, const View& columns,
            const ConvParams& params) {
  launch(
      stream, "col2im", [=] { cpu::col2im(image, columns, params); },
      [&] { cuda::col2im(stream, image, columns, params); });
}

}  // namespace ferrite::kernels
