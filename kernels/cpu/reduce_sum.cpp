#include <limits>

#include "ferrite/kernels/cpu/reduce_engine.h"
#include "ferrite/kernels/element_arithmetic.h"

namespace ferrite::kernels::cpu {

namespace {

template <class E>
struct Addition {
  using Elem = E;
  using Lane = E;
  using Total = TotalOf<E>;
  Total divisor = 1;
  Lane lane() const { return 0; }
  Total total() const { return 0; }
  template <class V>
  V step(V a, V x) const {
    return elements::add(a, x);
  }
  Lane combine(Lane a, Lane b) const { return elements::add(a, b); }
  Total join(Total a, Total b) const { return elements::add(a, b); }
  Total finish(Total a) const {
    if constexpr (std::is_floating_point_v<Total>)
      return a / divisor;
    else
      return a;
  }
};

/// float32 multiplies in double, so that intermediate products neither overflow nor vanish.
template <class E>
struct Multiplication {
  using Elem = E;
  using Lane = TotalOf<E>;
  using Total = TotalOf<E>;
  Lane lane() const { return 1; }
  Total total() const { return 1; }
  Lane step(Lane a, Elem x) const { return elements::multiply(a, static_cast<Lane>(x)); }
  Lane combine(Lane a, Lane b) const { return elements::multiply(a, b); }
  Total join(Total a, Total b) const { return elements::multiply(a, b); }
  Total finish(Total a) const { return a; }
};

}  // namespace

void reduce_sum(const View& out, const View& in, bool mean) {
  dispatch_wide(in.dtype, [&]<class E>() {
    Addition<E> f;
    if (mean)
      f.divisor = static_cast<typename Addition<E>::Total>(out.numel ? in.numel / out.numel : 1);
    run_reduction(f, out, in);
  });
}

void reduce_prod(const View& out, const View& in) {
  dispatch_wide(in.dtype, [&]<class E>() { run_reduction(Multiplication<E>(), out, in); });
}

}  // namespace ferrite::kernels::cpu
