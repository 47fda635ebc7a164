// Elementwise loops whose operands are read as float, double or int64, whatever their dtypes:
// a run that lies in memory as it should is taken from there, others are converted in blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "ferrite/kernels/cpu/convert.h"
#include "ferrite/kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

/// The elements p[i * step] of an operand; the step is 1, or 0 of one value for all.
template <class E>
struct Run {
  const E* p;
  std::int64_t step;
};

namespace detail {

/// Elements that are converted at a time, so that they stay in the first-level cache.
inline constexpr std::int64_t kBlock = 480;  // buffers no multiple of 4096 bytes apart

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
  /// The elements from the `i`-th on.
  Run<E> read(std::int64_t i, std::int64_t n) {
    if (direct_) return {reinterpret_cast<const E*>(at_) + i * step_, step_};
    load_run(buffer_, at_ + i * stride_ * static_cast<std::int64_t>(itemsize(dtype_)), dtype_,
             stride_, n);
    return {buffer_, step_};
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

}  // namespace detail

/// Calls run(out, n, Run<E>...) for runs of all elements. Results are `Out`: E, which is converted
/// to what `out` holds, or bool where it holds that.
template <class Out, class E, class F, class... Views>
void run_operands(const View& out, F&& run, const Views&... in) {
  const std::array<const View*, 1 + sizeof...(Views)> views{&out, &in...};
  for_each_run<1 + sizeof...(Views)>(views, [&](const auto& at, const auto& step, std::int64_t n) {
    const auto size = static_cast<std::int64_t>(itemsize(out.dtype));
    char* to = out.as<char>() + at[0] * size;
    const bool direct = out.dtype == dtype_of<Out> && (step[0] == 1 || n == 1);
    [&]<std::size_t... K>(std::index_sequence<K...>) {
      detail::Operand<E> operands[] = {{*views[K + 1], at[K + 1], step[K + 1], n}...};
      if (direct && (operands[K].direct() && ...))
        return run(reinterpret_cast<Out*>(to), n, operands[K].read(0, n)...);
      Out results[detail::kBlock];
      for (std::int64_t i = 0; i < n; i += detail::kBlock) {
        const std::int64_t m = std::min(detail::kBlock, n - i);
        char* here = to + i * step[0] * size;
        run(direct ? reinterpret_cast<Out*>(here) : results, m, operands[K].read(i, m)...);
        if (!direct) detail::put(out, here, step[0], results, m);
      }
    }
    (std::index_sequence_for<Views...>());
  });
}

}  // namespace ferrite::kernels::cpu
