#include "ferrite/kernels/augment.h"

#include "ferrite/kernels/cpu/augment.h"
#include "ferrite/kernels/cuda/augment.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void augment(const Stream& stream, const View& out, const View& images, const AugmentArgs& args,
             PhiloxState state) {
  launch(
      stream, "augment", [=] { cpu::augment(out, images, args, state); },
      [&] { cuda::augment(stream, out, images, args, state); });
}

}  // namespace ferrite::kernels
