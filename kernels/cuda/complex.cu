#include "ferrite/kernels/complex.h"
#include "ferrite/kernels/complex_arithmetic.h"
#include "ferrite/kernels/cuda/elementwise.cuh"

namespace ferrite::kernels::cuda {

namespace {

template <class T>
struct ComplexArithmetic {
  bool divides;
  __device__ Parts<T> operator()(Parts<T> a, Parts<T> b) const {
    return divides ? quotient(a, b) : product(a, b);
  }
};

template <class T>
struct ComplexEquality {
  bool wanted;
  __device__ bool operator()(Parts<T> a, Parts<T> b) const { return are_equal(a, b) == wanted; }
};

template <class T>
void run_complex(const Stream& stream, BinaryOp op, const View& out, const View& a, const View& b) {
  using P = Parts<T>;
  if (op == BinaryOp::mul || op == BinaryOp::div)
    map<P, P, P>(stream, "complex", ComplexArithmetic<T>{op == BinaryOp::div}, out, a, b);
  else
    map<bool, P, P>(stream, "complex", ComplexEquality<T>{op == BinaryOp::eq}, out, a, b);
}

}  // namespace

void complex_binary(const Stream& stream, BinaryOp op, const View& out, const View& a,
                    const View& b) {
  if (out.numel == 0) return;
  a.dtype == kComplex64 ? run_complex<float>(stream, op, out, a, b)
                        : run_complex<double>(stream, op, out, a, b);
}

}  // namespace ferrite::kernels::cuda
