#include "ferrite/kernels/check_range.h"

#include "ferrite/kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

void check_range(const char* op, const View& in, double low, double high) {
  dispatch_floating(in.dtype, op, [&]<class T>() {
    using C = Compute<T>;
    const C lo = static_cast<C>(low), hi = static_cast<C>(high);
    for_each_run<1>({&in}, [&](const auto& at, const auto& step, std::int64_t n) {
      const T* x = in.as<T>() + at[0];
      bool outside = false;
      for (std::int64_t i = 0; i < n; ++i) {
        const C v = static_cast<C>(x[i * step[0]]);
        outside |= (v < lo) | (v > hi);
      }
      if (!outside) return;
      for (std::int64_t i = 0; i < n; ++i) {
        const C v = static_cast<C>(x[i * step[0]]);
        FERRITE_CHECK(!(v < lo || v > hi), ValueError, op, "expected values in [{}, {}], got {}",
                      low, high, v);
      }
    });
  });
}

}  // namespace ferrite::kernels::cpu
