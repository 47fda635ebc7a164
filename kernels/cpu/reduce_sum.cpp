#include <limits>

#include "ferrite/kernels/cpu/reduce_engine.h"

namespace ferrite::kernels::cpu {

namespace {

/// Integers wrap around, as in PyTorch, without undefined overflow.
template <class T>
T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else
    return a + b;
}
template <class T>
T times(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else
    return a * b;
}

template <class E>
struct Sum {
  using Elem = E;
  using Lane = E;
  using Total = TotalOf<E>;
  Total divisor = 1;
  Lane lane() const { return 0; }
  Total total() const { return 0; }
  Lane step(Lane a, Elem x) const { return plus(a, x); }
  Lane combine(Lane a, Lane b) const { return plus(a, b); }
  Total join(Total a, Total b) const { return plus(a, b); }
  Total finish(Total a) const {
    if constexpr (std::is_floating_point_v<Total>)
      return a / divisor;
    else
      return a;
  }
};

/// float32 multiplies in double, so that intermediate products neither overflow nor vanish.
template <class E>
struct Prod {
  using Elem = E;
  using Lane = TotalOf<E>;
  using Total = TotalOf<E>;
  Lane lane() const { return 1; }
  Total total() const { return 1; }
  Lane step(Lane a, Elem x) const { return times(a, static_cast<Lane>(x)); }
  Lane combine(Lane a, Lane b) const { return times(a, b); }
  Total join(Total a, Total b) const { return times(a, b); }
  Total finish(Total a) const { return a; }
};

}  // namespace

void reduce_sum(const View& out, const View& in, bool mean) {
  dispatch_wide(in.dtype, [&]<class E>() {
    Sum<E> f;
    if (mean) f.divisor = static_cast<typename Sum<E>::Total>(out.numel ? in.numel / out.numel : 1);
    run_reduction(f, out, in);
  });
}

void reduce_prod(const View& out, const View& in) {
  dispatch_wide(in.dtype, [&]<class E>() { run_reduction(Prod<E>(), out, in); });
}

}  // namespace ferrite::kernels::cpu
