#include "ferrite/kernels/index.h"

#include "ferrite/kernels/cpu/index.h"
#include "ferrite/kernels/cuda/index.h"
#include "ferrite/kernels/cuda/mask.h"
#include "ferrite/kernels/cuda/nonzero.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void gather(const Stream& stream, const char* op, const View& out, const View& x, const View& index,
            int dim) {
  launch(
      stream, op, [=] { cpu::gather(op, out, x, index, dim); },
      [&] { cuda::gather(stream, op, out, x, index, dim); });
}
void scatter(const Stream& stream, const char* op, const View& out, const View& index,
             const View& source, int dim) {
  launch(
      stream, op, [=] { cpu::scatter(op, out, index, source, dim); },
      [&] { cuda::scatter(stream, op, out, index, source, dim); });
}
void scatter_add(const Stream& stream, const char* op, const View& out, const View& index,
                 const View& source, int dim) {
  launch(
      stream, op, [=] { cpu::scatter_add(op, out, index, source, dim); },
      [&] { cuda::scatter_add(stream, op, out, index, source, dim); });
}
void index_select(const Stream& stream, const char* op, const View& out, const View& x,
                  const View& index, int dim) {
  launch(
      stream, op, [=] { cpu::index_select(op, out, x, index, dim); },
      [&] { cuda::index_select(stream, op, out, x, index, dim); });
}
void index_add(const Stream& stream, const char* op, const View& out, const View& index,
               const View& source, int dim, Scalar alpha) {
  launch(
      stream, op, [=] { cpu::index_add(op, out, index, source, dim, alpha); },
      [&] { cuda::index_add(stream, op, out, index, source, dim, alpha); });
}
void masked_fill(const Stream& stream, const View& out, const View& x, const View& mask,
                 Scalar value) {
  launch(
      stream, "masked_fill", [=] { cpu::masked_fill(out, x, mask, value); },
      [&] { cuda::masked_fill(stream, out, x, mask, value); });
}
void count_nonzero(const Stream& stream, const View& out, const View& x) {
  launch(
      stream, "nonzero", [=] { cpu::count_nonzero(out, x); },
      [&] { cuda::count_nonzero(stream, out, x); });
}
void nonzero(const Stream& stream, const View& out, const View& x) {
  launch(
      stream, "nonzero", [=] { cpu::nonzero(out, x); }, [&] { cuda::nonzero(stream, out, x); });
}
void triangle(const Stream& stream, const View& out, const View& x, Triangle part,
              std::int64_t diagonal) {
  launch(
      stream, "triangle", [=] { cpu::triangle(out, x, part, diagonal); },
      [&] { cuda::triangle(stream, out, x, part, diagonal); });
}

}  // namespace ferrite::kernels
