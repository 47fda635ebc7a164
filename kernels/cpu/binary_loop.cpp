#include "ferrite/kernels/cpu/binary_loop.h"

#include <algorithm>

#include "ferrite/kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

namespace {

/// Elements that are converted at a time, so that they stay in the first-level cache.
constexpr std::int64_t kBlock = 480;  // buffers no multiple of 4096 bytes apart

/// Whether an operand's run is taken as it lies; then its step is 1 or 0.
template <class E>
bool in_place(const View& v, std::int64_t step, std::int64_t n) {
  return v.dtype == dtype_of<E> && (step == 1 || step == 0 || n == 1);
}

/// An operand of a run, read in blocks.
template <class E>
class Operand {
 public:
  Operand(const View& v, std::int64_t offset, std::int64_t step, std::int64_t n)
      : dtype_(v.dtype), stride_(step), direct_(in_place<E>(v, step, n)) {
    at_ = v.as<char>() + offset * static_cast<std::int64_t>(itemsize(v.dtype));
    step_ = step == 0 ? 0 : 1;
    if (!direct_ && step == 0) {
      load_run(buffer_, at_, dtype_, 1, 1);
      at_ = reinterpret_cast<const char*>(buffer_);
      direct_ = true;
    }
  }
  bool direct() const { return direct_; }
  std::int64_t step() const { return step_; }
  /// The elements from the `i`-th on.
  const E* read(std::int64_t i, std::int64_t n) {
    if (direct_) return reinterpret_cast<const E*>(at_) + i * step_;
    load_run(buffer_, at_ + i * stride_ * static_cast<std::int64_t>(itemsize(dtype_)), dtype_,
             stride_, n);
    return buffer_;
  }

 private:
  const char* at_;
  DType dtype_;
  std::int64_t stride_, step_;
  bool direct_;
  E buffer_[kBlock];
};

/// Results to where they belong.
template <class E>
void put(const View& out, char* to, std::int64_t step, const E* from, std::int64_t n) {
  if constexpr (std::is_same_v<E, bool>)
    for (std::int64_t i = 0; i < n; ++i) reinterpret_cast<bool*>(to)[i * step] = from[i];
  else
    store_run(to, out.dtype, step, from, n);
}

}  // namespace

template <class Out, class E>
void run_binary(const View& out, const View& a, const View& b, BinaryRun<Out, E> run,
                const void* context) {
  // One element without a loop, which would cost more.
  if (out.numel == 1 && out.dtype == dtype_of<Out> && a.dtype == dtype_of<E> &&
      b.dtype == dtype_of<E>)
    return run(out.as<Out>(), a.as<E>(), 1, b.as<E>(), 1, 1, context);
  for_each_run<3>({&out, &a, &b}, [&](const auto& at, const auto& step, std::int64_t n) {
    const auto size = static_cast<std::int64_t>(itemsize(out.dtype));
    char* to = out.as<char>() + at[0] * size;
    const bool direct = out.dtype == dtype_of<Out> && (step[0] == 1 || n == 1);
    Operand<E> x(a, at[1], step[1], n), y(b, at[2], step[2], n);
    if (direct && x.direct() && y.direct())
      return run(reinterpret_cast<Out*>(to), x.read(0, n), x.step(), y.read(0, n), y.step(), n,
                 context);
    Out results[kBlock];
    for (std::int64_t i = 0; i < n; i += kBlock) {
      const std::int64_t m = std::min(kBlock, n - i);
      char* here = to + i * step[0] * size;
      Out* into = direct ? reinterpret_cast<Out*>(here) : results;
      run(into, x.read(i, m), x.step(), y.read(i, m), y.step(), m, context);
      if (!direct) put(out, here, step[0], results, m);
    }
  });
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
