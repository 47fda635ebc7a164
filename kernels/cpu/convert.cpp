#include "ferrite/kernels/cpu/convert.h"

#include "ferrite/kernels/cpu/half_runs.h"

namespace ferrite::kernels::cpu {

namespace {

template <class E, class T>
E convert_in(T x) {
  if constexpr (is_half_type<T>)
    return static_cast<E>(static_cast<float>(x));
  else
    return static_cast<E>(x);
}

template <class T, class E>
T convert_out(E x) {
  if constexpr (std::is_same_v<T, bool>)
    return x != E(0);
  else if constexpr (is_half_type<T>)
    return T(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

/// What half_runs.h converts at vector speed.
template <class T, class E>
inline constexpr bool kHalfRun = is_half_type<T>&& std::is_same_v<E, float>;

// Parameters are passed by value: what a lambda captures could alias what a loop over int64 writes,
// and the loop would not be vectorized.
template <class E, class T>
void load_of(E* dst, const T* x, std::int64_t stride, std::int64_t n) {
  if (stride != 1)
    for (std::int64_t i = 0; i < n; ++i) dst[i] = convert_in<E>(x[i * stride]);
  else if constexpr (kHalfRun<T, E>)
    widen(dst, x, n);
  else
    for (std::int64_t i = 0; i < n; ++i) dst[i] = convert_in<E>(x[i]);
}

template <class E, class T>
void store_of(T* x, std::int64_t stride, const E* src, std::int64_t n) {
  if (stride != 1)
    for (std::int64_t i = 0; i < n; ++i) x[i * stride] = convert_out<T>(src[i]);
  else if constexpr (kHalfRun<T, E>)
    narrow(x, src, n);
  else
    for (std::int64_t i = 0; i < n; ++i) x[i] = convert_out<T>(src[i]);
}

}  // namespace

template <class E>
void load_run(E* dst, const void* src, DType dtype, std::int64_t stride, std::int64_t n) {
  dispatch_all(dtype, "reduce", [=]<class T>() {
    using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;  // 0 or 1
    load_of(dst, static_cast<const Stored*>(src), stride, n);
  });
}

template <class E>
void store_run(void* dst, DType dtype, std::int64_t stride, const E* src, std::int64_t n) {
  dispatch_all(dtype, "reduce", [=]<class T>() { store_of(static_cast<T*>(dst), stride, src, n); });
}

template void load_run(float*, const void*, DType, std::int64_t, std::int64_t);
template void load_run(double*, const void*, DType, std::int64_t, std::int64_t);
template void load_run(std::int64_t*, const void*, DType, std::int64_t, std::int64_t);
template void store_run(void*, DType, std::int64_t, const float*, std::int64_t);
template void store_run(void*, DType, std::int64_t, const double*, std::int64_t);
template void store_run(void*, DType, std::int64_t, const std::int64_t*, std::int64_t);

}  // namespace ferrite::kernels::cpu
