#include "kernels/where.h"

#include "kernels/cpu/where.h"

namespace ferrite::kernels {

void where(const Stream& stream, const View& out, const View& condition, const View& a,
           const View& b) {
  launch(stream, "where", [=] { cpu::where(out, condition, a, b); });
}

}  // namespace ferrite::kernels
