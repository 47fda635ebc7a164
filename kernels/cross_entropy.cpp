#include "ferrite/kernels/cross_entropy.h"

#include "ferrite/kernels/cpu/cross_entropy.h"
#include "ferrite/kernels/cuda/cross_entropy.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void cross_entropy(const Stream& stream, const CrossEntropyArgs& args,
                   const CrossEntropyResult& result) {
  launch(
      stream, "cross_entropy", [=] { cpu::cross_entropy(args, result); },
      [&] { cuda::cross_entropy(stream, args, result); });
}
void cross_entropy_backward(const Stream& stream, const View& out, const CrossEntropyArgs& args,
                            const View& log_sums, const View& grad, const View& divisor) {
  launch(
      stream, "cross_entropy_backward",
      [=] { cpu::cross_entropy_backward(out, args, log_sums, grad, divisor); },
      [&] { cuda::cross_entropy_backward(stream, out, args, log_sums, grad, divisor); });
}

}  // namespace ferrite::kernels
