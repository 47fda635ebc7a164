
#include <cmath>
#include <limits>

#include "ferrite/kernels/cpu/reduce_engine.h"

namespace ferrite::kernels::cpu {

namespace {

template <class E, bool kMax>
struct Extremum {
  using Elem = E;
  using Lane = E;
  using Total = TotalOf<E>;
  template <class T>
  static T worst() {
    using L = std::numeric_limits<T>;
    if constexpr (L::has_infinity)
      return kMax ? -L::infinity() : L::infinity();
    else
      return kMax ? L::min() : L::max();
  }
  /// NaN wins. Bitwise, as a jump would keep the loop from being vectorised.
  template <class T>
  static T better(T a, T x) {
    return ((kMax ? x > a : x < a) | (x != x)) ? x : a;
  }
  Lane lane() const { return worst<Lane>(); }
  Total total() const { return worst<Total>(); }
  template <class V>
  V step(V a, V x) const {
    return better(a, x);
  }
  Lane combine(Lane a, Lane b) const { return better(a, b); }
  Total join(Total a, Total b) const { return better(a, b); }
  Total finish(Total a) const { return a; }
};

template <class E>
struct Count {
  using Elem = E;
  using Lane = std::int64_t;
  using Total = std::int64_t;
  ReduceOp op;
  std::int64_t n;
  Lane lane() const { return 0; }
  Total total() const { return 0; }
  Lane step(Lane a, Elem x) const { return static_cast<Lane>(a + (x != Elem(0))); }
  Lane combine(Lane a, Lane b) const { return static_cast<Lane>(a + b); }
  Total join(Total a, Total b) const { return a + b; }
  Total finish(Total a) const {
    return op == ReduceOp::any ? a != 0 : op == ReduceOp::all ? a == n : a;
  }
};

}  // namespace

void reduce_extremum(const View& out, const View& in, bool max) {
  dispatch_wide(in.dtype, [&]<class E>() {
    max ? run_reduction(Extremum<E, true>(), out, in)
        : run_reduction(Extremum<E, false>(), out, in);
  });
}

void reduce_count(ReduceOp op, const View& out, const View& in) {
  const std::int64_t n = out.numel ? in.numel / out.numel : 0;
  // Counted as double, float32 is read as it is.
  is_floating(in.dtype) ? run_reduction(Count<double>{op, n}, out, in)
                        : run_reduction(Count<std::int64_t>{op, n}, out, in);
}

void reduce(ReduceOp op, const View& out, const View& in, double p) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
      return reduce_sum(out, in, op == ReduceOp::mean);
    case ReduceOp::prod:
      return reduce_prod(out, in);
    case ReduceOp::max:
    case ReduceOp::min:
      return reduce_extremum(out, in, op == ReduceOp::max);
    case ReduceOp::norm:
      return reduce_norm(out, in, p);
    case ReduceOp::count_nonzero:
    case ReduceOp::any:
    case ReduceOp::all:
      return reduce_count(op, out, in);
  }
}

}  // namespace ferrite::kernels::cpu

namespace ferrite::kernels {

void reduce(const Stream& stream, ReduceOp op, const View& out, const View& in, double p) {
  launch<cpu::reduce, cuda::reduce>(stream, "reduce", op, out, in, p);
}

}  // namespace ferrite::kernels
