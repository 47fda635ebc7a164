// The parts of cuda_fp16.h that only device code sees. Half arithmetic is done in float and rounded
// once; a product of two halves is exact in double, so fused multiply-add is too.
#pragma once

#include <cuda_fp16.h>

#include <cmath>

#include "ferrite/emulator/atomics.h"

inline __half __hfma(__half a, __half b, __half c) {
  return __double2half(static_cast<double>(__half2float(a)) * __half2float(b) + __half2float(c));
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
inline __half __hfma_relu(__half a, __half b, __half c) {
  return __hmax(__hfma(a, b, c), __float2half(0.0f));
}

#define EMULATOR_HALF_FUNCTION(name, expression) \
  inline __half h##name(__half h) {              \
    const float x = __half2float(h);             \
    return __float2half(expression);             \
  }                                              \
  inline __half2 h2##name(__half2 h) { return __half2(h##name(h.x), h##name(h.y)); }
EMULATOR_HALF_FUNCTION(exp, std::exp(x))
EMULATOR_HALF_FUNCTION(exp2, std::exp2(x))
EMULATOR_HALF_FUNCTION(exp10, std::pow(10.0f, x))
EMULATOR_HALF_FUNCTION(log, std::log(x))
EMULATOR_HALF_FUNCTION(log2, std::log2(x))
EMULATOR_HALF_FUNCTION(log10, std::log10(x))
EMULATOR_HALF_FUNCTION(sin, std::sin(x))
EMULATOR_HALF_FUNCTION(cos, std::cos(x))
EMULATOR_HALF_FUNCTION(tanh, std::tanh(x))
EMULATOR_HALF_FUNCTION(sqrt, std::sqrt(x))
EMULATOR_HALF_FUNCTION(rsqrt, 1.0f / std::sqrt(x))
EMULATOR_HALF_FUNCTION(rcp, 1.0f / x)
EMULATOR_HALF_FUNCTION(trunc, std::trunc(x))
EMULATOR_HALF_FUNCTION(floor, std::floor(x))
EMULATOR_HALF_FUNCTION(ceil, std::ceil(x))
EMULATOR_HALF_FUNCTION(rint, std::nearbyint(x))
#undef EMULATOR_HALF_FUNCTION

inline int __half2int_rn(__half h) { return static_cast<int>(std::nearbyint(__half2float(h))); }
inline int __half2int_rd(__half h) { return static_cast<int>(std::floor(__half2float(h))); }

EMULATOR_INLINE __half atomicAdd(__half* address, __half value) {
  return emulator::atomic_update(address, [value](__half old) { return __hadd(old, value); });
}
EMULATOR_INLINE __half2 atomicAdd(__half2* address, __half2 value) {
  return emulator::atomic_update(address, [value](__half2 old) { return __hadd2(old, value); });
}
EMULATOR_INLINE unsigned short atomicCAS(__half* address, unsigned short compare,
                                         unsigned short value) {
  return atomicCAS(reinterpret_cast<unsigned short*>(address), compare, value);
}
