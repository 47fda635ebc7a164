#include "ferrite/kernels/combine.h"

#include <cstring>
#include <type_traits>

#include "ferrite/kernels/cpu/simd.h"

namespace ferrite::kernels::cpu {

namespace {

template <Combine op, class C, int W>
Lanes<C, W> reduce(const Lanes<C, W>& a, const Lanes<C, W>& b) {
  if constexpr (op == Combine::sum || op == Combine::product) {
    using Wide = Lanes<typename WrappingOf<C>::type, W>;
    const Wide x = bits_as<Wide>(a), y = bits_as<Wide>(b);
    if constexpr (op == Combine::sum)
      return bits_as<Lanes<C, W>>(static_cast<Wide>(x + y));
    else
      return bits_as<Lanes<C, W>>(static_cast<Wide>(x * y));
  } else if constexpr (op == Combine::min) {
    return ((a < b) | (a != a)) ? a : b;
  } else {
    return ((a > b) | (a != a)) ? a : b;
  }
}

/// One element has an address that fits its type only by chance; several never need one.
template <int W, class T>
Lanes<Compute<T>, W> load_anywhere(const T* p) {
  if constexpr (W > 1) {
    return load<W>(p);
  } else {
    T value;
    std::memcpy(&value, static_cast<const void*>(p), sizeof value);
    return load<1>(&value);
  }
}
template <int W, class T>
void store_anywhere(T* p, const Lanes<Compute<T>, W>& v) {
  if constexpr (W > 1) {
    store<W>(p, v);
  } else {
    T value;
    store<1>(&value, v);
    std::memcpy(static_cast<void*>(p), &value, sizeof value);
  }
}

template <Combine op, class Out, class A, class B>
void run(const View& out, const View& a, const View& b, [[maybe_unused]] double scale) {
  using C = Compute<B>;
  constexpr int kWidth = 16;
  Out* const o = out.as<Out>();
  const A* const x = a.as<A>();
  const B* const y = b.as<B>();
  const std::int64_t n = out.numel;
  const auto block = [&](std::int64_t i, auto width) {
    constexpr int kW = width;
    Lanes<C, kW> v = reduce<op, C, kW>(load_anywhere<kW>(x + i), load_anywhere<kW>(y + i));
    if constexpr (std::is_floating_point_v<C>) v = v * static_cast<C>(scale);
    store_anywhere<kW>(o + i, v);
  };
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) block(i, std::integral_constant<int, kWidth>());
  for (; i < n; ++i) block(i, std::integral_constant<int, 1>());
}

template <class Out, class A, class B>
void run(Combine op, const View& out, const View& a, const View& b, double scale) {
  switch (op) {
    case Combine::sum:
      return run<Combine::sum, Out, A, B>(out, a, b, scale);
    case Combine::product:
      return run<Combine::product, Out, A, B>(out, a, b, scale);
    case Combine::min:
      return run<Combine::min, Out, A, B>(out, a, b, scale);
    case Combine::max:
      return run<Combine::max, Out, A, B>(out, a, b, scale);
  }
}

}  // namespace

void combine(Combine op, const View& out, const View& a, const View& b, double scale) {
  if (out.dtype == b.dtype && a.dtype == b.dtype)
    return dispatch_numeric(b.dtype, "combine",
                            [&]<class T>() { run<T, T, T>(op, out, a, b, scale); });
  dispatch_types<Half, BFloat16>(b.dtype, "combine", [&]<class T>() {
    if (out.dtype != kFloat32)
      run<T, float, T>(op, out, a, b, scale);
    else if (a.dtype != kFloat32)
      run<float, T, T>(op, out, a, b, scale);
    else
      run<float, float, T>(op, out, a, b, scale);
  });
}

}  // namespace ferrite::kernels::cpu

namespace ferrite::kernels {

void combine(const Stream& stream, Combine op, const View& out, const View& a, const View& b,
             double scale) {
  FERRITE_CHECK(out.numel == b.numel && a.numel == b.numel, ShapeError, "combine",
                "expected arrays of one length, got {}, {} and {}", out.numel, a.numel, b.numel);
  const bool same = out.dtype == b.dtype && a.dtype == b.dtype;
  const bool half = b.dtype == kFloat16 || b.dtype == kBFloat16;
  const auto fits = [&](DType dtype) { return dtype == b.dtype || dtype == kFloat32; };
  FERRITE_CHECK(same || (half && fits(out.dtype) && fits(a.dtype)), DTypeError, "combine",
                "expected one dtype, or float32 beside a 16-bit one, got {} from {} and {}",
                out.dtype, a.dtype, b.dtype);
  FERRITE_CHECK(scale == 1 || is_floating(b.dtype), DTypeError, "combine",
                "expected a floating type to scale, got {}", b.dtype);
  if (out.numel > 0) launch<cpu::combine, cuda::combine>(stream, "combine", op, out, a, b, scale);
}

}  // namespace ferrite::kernels
