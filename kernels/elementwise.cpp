#include "kernels/elementwise.h"

#include "kernels/cpu/binary.h"
#include "kernels/cuda/binary.h"
#include "kernels/launch.h"

namespace ferrite::kernels {

void binary(const Stream& stream, BinaryOp op, const View& out, const View& a, const View& b) {
  launch(
      stream, "binary", [=] { cpu::binary(op, out, a, b); },
      [&] { cuda::binary(stream, op, out, a, b); });
}
void binary(const Stream& stream, BinaryOp op, const View& out, const View& a, Scalar b) {
  launch(
      stream, "binary", [=] { cpu::binary(op, out, a, b); },
      [&] { cuda::binary(stream, op, out, a, b); });
}
void binary(const Stream& stream, BinaryOp op, const View& out, Scalar a, const View& b) {
  launch(
      stream, "binary", [=] { cpu::binary(op, out, a, b); },
      [&] { cuda::binary(stream, op, out, a, b); });
}
void add_scaled(const Stream& stream, const View& out, const View& a, const View& b, Scalar alpha) {
  launch(
      stream, "add", [=] { cpu::add_scaled(out, a, b, alpha); },
      [&] { cuda::add_scaled(stream, out, a, b, alpha); });
}

}  // namespace ferrite::kernels
