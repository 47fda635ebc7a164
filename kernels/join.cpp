#include "ferrite/kernels/join.h"

#include "ferrite/kernels/cpu/join.h"
#include "ferrite/kernels/cuda/join.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void join(const Stream& stream, void* out, std::int64_t rows, const std::vector<JoinPart>& parts) {
  launch(
      stream, "join", [=] { cpu::join(out, rows, parts); },
      [&] { cuda::join(stream, out, rows, parts); });
}

}  // namespace ferrite::kernels
