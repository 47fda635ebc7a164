#include "ferrite/kernels/elementwise.h"

#include "ferrite/kernels/cpu/binary.h"
#include "ferrite/kernels/cuda/binary.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

namespace {

/// launch() for work that is cheaper than a copy of its views: where nothing is queued it refers to
/// the caller's.
template <class Cpu, class Cuda>
void launch_small(const Stream& stream, const char* op, const Cpu& cpu, const Cuda& cuda,
                  const auto&... arguments) {
  if (stream.impl()->runs_inline) [[likely]] {
    const profiler::detail::KernelRange range(stream, op);
    cpu(arguments...);
  } else {
    launch(
        stream, op, [=] { cpu(arguments...); }, cuda);
  }
}

}  // namespace

void binary(const Stream& stream, BinaryOp op, const View& out, const View& a, const View& b) {
  launch_small(
      stream, "binary", [](const auto&... arguments) { cpu::binary(arguments...); },
      [&] { cuda::binary(stream, op, out, a, b); }, op, out, a, b);
}
void binary(const Stream& stream, BinaryOp op, const View& out, const View& a, Scalar b) {
  launch_small(
      stream, "binary", [](const auto&... arguments) { cpu::binary(arguments...); },
      [&] { cuda::binary(stream, op, out, a, b); }, op, out, a, b);
}
void binary(const Stream& stream, BinaryOp op, const View& out, Scalar a, const View& b) {
  launch_small(
      stream, "binary", [](const auto&... arguments) { cpu::binary(arguments...); },
      [&] { cuda::binary(stream, op, out, a, b); }, op, out, a, b);
}
void add_scaled(const Stream& stream, const View& out, const View& a, const View& b, Scalar alpha) {
  launch_small(
      stream, "add", [](const auto&... arguments) { cpu::add_scaled(arguments...); },
      [&] { cuda::add_scaled(stream, out, a, b, alpha); }, out, a, b, alpha);
}

}  // namespace ferrite::kernels
