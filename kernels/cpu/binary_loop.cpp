#include "ferrite/kernels/cpu/binary_loop.h"

#include "ferrite/kernels/cpu/operand_loop.h"

namespace ferrite::kernels::cpu {

template <class Out, class E>
void run_binary(const View& out, const View& a, const View& b, BinaryRun<Out, E> run,
                const void* context) {
  // One element without a loop, which would cost more.
  if (out.numel == 1 && out.dtype == dtype_of<Out> && a.dtype == dtype_of<E> &&
      b.dtype == dtype_of<E>)
    return run(out.as<Out>(), a.as<E>(), 1, b.as<E>(), 1, 1, context);
  run_operands<Out, E>(
      out,
      [&](Out* to, std::int64_t n, Run<E> x, Run<E> y) {
        run(to, x.p, x.step, y.p, y.step, n, context);
      },
      a, b);
}

template void run_binary(const View&, const View&, const View&, BinaryRun<bool, float>,
                         const void*);
template void run_binary(const View&, const View&, const View&, BinaryRun<bool, double>,
                         const void*);
template void run_binary(const View&, const View&, const View&, BinaryRun<bool, std::int64_t>,
                         const void*);
template void run_binary(const View&, const View&, const View&, BinaryRun<float, float>,
                         const void*);
template void run_binary(const View&, const View&, const View&, BinaryRun<double, double>,
                         const void*);
template void run_binary(const View&, const View&, const View&,
                         BinaryRun<std::int64_t, std::int64_t>, const void*);

}  // namespace ferrite::kernels::cpu
