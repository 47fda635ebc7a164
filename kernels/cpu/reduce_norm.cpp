#include <cmath>
#include <limits>

#include "ferrite/kernels/cpu/reduce_engine.h"

namespace ferrite::kernels::cpu {

namespace {

template <class E>
struct Norm {
  using Elem = E;
  using Lane = E;
  using Total = double;
  Lane lane() const { return 0; }
  Total total() const { return 0; }
  Lane combine(Lane a, Lane b) const { return a + b; }
  Total join(Total a, Total b) const { return a + b; }
  Total finish(Total a) const { return a; }
};

template <class E>
struct Norm0 : Norm<E> {
  E step(E a, E x) const { return a + static_cast<E>(x != 0); }
};

template <class E>
struct Norm1 : Norm<E> {
  E step(E a, E x) const { return a + std::abs(x); }
};

/// Squares of float32 are added up in double, where they cannot overflow.
template <class E>
struct Norm2 : Norm<E> {
  using Lane = double;
  double lane() const { return 0; }
  double step(double a, E x) const { return a + static_cast<double>(x) * static_cast<double>(x); }
  double combine(double a, double b) const { return a + b; }
  double finish(double a) const { return std::sqrt(a); }
};

template <class E>
struct NormP : Norm2<E> {
  double p = 2;
  double step(double a, E x) const { return a + std::pow(std::abs(static_cast<double>(x)), p); }
  double finish(double a) const { return std::pow(a, 1 / p); }
};

template <class E, bool kMax>
struct NormInf : Norm<E> {
  static constexpr double kWorst = kMax ? 0 : std::numeric_limits<double>::infinity();
  template <class T>
  static T better(T a, T x) {
    return ((kMax ? x > a : x < a) | (x != x)) ? x : a;
  }
  E lane() const { return static_cast<E>(kWorst); }
  double total() const { return kWorst; }
  E step(E a, E x) const { return better(a, std::abs(x)); }
  E combine(E a, E b) const { return better(a, b); }
  double join(double a, double b) const { return better(a, b); }
};

template <class E>
void norm_of(const View& out, const View& in, double p) {
  p == 2 ? run_reduction(Norm2<E>(), out, in) : run_reduction(Norm1<E>(), out, in);
}

/// Rare ones are of double: what float32 holds is the same in it.
void rare_norm(const View& out, const View& in, double p) {
  if (p == 0) return run_reduction(Norm0<double>(), out, in);
  if (std::isinf(p))
    return p > 0 ? run_reduction(NormInf<double, true>(), out, in)
                 : run_reduction(NormInf<double, false>(), out, in);
  NormP<double> f;
  f.p = p;
  run_reduction(f, out, in);
}

}  // namespace

void reduce_norm(const View& out, const View& in, double p) {
  if (p != 1 && p != 2) return rare_norm(out, in, p);
  in.dtype == kFloat64 ? norm_of<double>(out, in, p) : norm_of<float>(out, in, p);
}

}  // namespace ferrite::kernels::cpu
