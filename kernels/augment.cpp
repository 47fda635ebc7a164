#include "kernels/augment.h"

#include "kernels/cpu/augment.h"
#include "kernels/cuda/augment.h"
#include "kernels/launch.h"

namespace ferrite::kernels {

void augment(const Stream& stream, const View& out, const View& images, const AugmentArgs& args,
             PhiloxState state) {
  launch(
      stream, "augment", [=] { cpu::augment(out, images, args, state); },
      [&] { cuda::augment(stream, out, images, args, state); });
}

}  // namespace ferrite::kernels
