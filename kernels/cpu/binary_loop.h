// Elementwise loops over two operands: the walk over strided views of any dtype, compiled once for
// each of float, double and int64, apart from what is done to a run of elements.
#pragma once

#include "ferrite/kernels/cpu/convert.h"
#include "ferrite/kernels/elementwise.h"

namespace ferrite::kernels::cpu {

/// out[i] = f(a[i * a_step], b[i * b_step]); the steps are 1, or 0 of a value for all elements.
template <class Out, class E>
using BinaryRun = void (*)(Out* out, const E* a, std::int64_t a_step, const E* b,
                           std::int64_t b_step, std::int64_t n, const void* context);

/// Calls `run` for runs of all elements. Operands are read as E, the Wide type of their dtypes;
/// results are E and converted to what `out` holds, or bool where it holds that.
template <class Out, class E>
void run_binary(const View& out, const View& a, const View& b, BinaryRun<Out, E> run,
                const void* context = nullptr);

/// A run that is worth a loop for each layout: f is a handful of vector instructions.
template <class Out, class E, class F>
void fast_run(Out* out, const E* a, std::int64_t a_step, const E* b, std::int64_t b_step,
              std::int64_t n, F f) {
  if (a_step == 1 && b_step == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
  } else if (a_step == 1) {
    const E y = *b;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i], y);
  } else {
    const E x = *a;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(x, b[i * b_step]);
  }
}

/// A run of a function that takes longer than its operands do.
template <class Out, class E, class F>
void plain_run(Out* out, const E* a, std::int64_t a_step, const E* b, std::int64_t b_step,
               std::int64_t n, F f) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i * a_step], b[i * b_step]);
}

// The two halves of binary(). Beside 16-bit values one operand may be float32 (a scalar).
void arithmetic(BinaryOp op, const View& out, const View& a, const View& b);
void comparison(BinaryOp op, const View& out, const View& a, const View& b);

/// The tensors' dtype where one operand is a scalar.
inline DType operand_dtype(const View& a, const View& b) {
  return itemsize(a.dtype) <= itemsize(b.dtype) ? a.dtype : b.dtype;
}

}  // namespace ferrite::kernels::cpu
