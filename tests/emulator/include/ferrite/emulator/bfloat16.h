// The parts of cuda_bf16.h that only device code sees. Arithmetic is done in float and rounded
// once; a product of two bfloat16 is exact in double, so fused multiply-add is too.
#pragma once

#include <cuda_bf16.h>

#include <cmath>

#include "ferrite/emulator/atomics.h"

inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __double2bfloat16(static_cast<double>(__bfloat162float(a)) * __bfloat162float(b) +
                           __bfloat162float(c));
}
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return __nv_bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
inline __nv_bfloat16 __hfma_relu(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __hmax(__hfma(a, b, c), __float2bfloat16(0.0f));
}

#define EMULATOR_BFLOAT16_FUNCTION(name, expression)   \
  inline __nv_bfloat16 h##name(__nv_bfloat16 h) {      \
    const float x = __bfloat162float(h);               \
    return __float2bfloat16(expression);               \
  }                                                    \
  inline __nv_bfloat162 h2##name(__nv_bfloat162 h) {   \
    return __nv_bfloat162(h##name(h.x), h##name(h.y)); \
  }
EMULATOR_BFLOAT16_FUNCTION(exp, std::exp(x))
EMULATOR_BFLOAT16_FUNCTION(exp2, std::exp2(x))
EMULATOR_BFLOAT16_FUNCTION(exp10, std::pow(10.0f, x))
EMULATOR_BFLOAT16_FUNCTION(log, std::log(x))
EMULATOR_BFLOAT16_FUNCTION(log2, std::log2(x))
EMULATOR_BFLOAT16_FUNCTION(log10, std::log10(x))
EMULATOR_BFLOAT16_FUNCTION(sin, std::sin(x))
EMULATOR_BFLOAT16_FUNCTION(cos, std::cos(x))
EMULATOR_BFLOAT16_FUNCTION(tanh, std::tanh(x))
EMULATOR_BFLOAT16_FUNCTION(sqrt, std::sqrt(x))
EMULATOR_BFLOAT16_FUNCTION(rsqrt, 1.0f / std::sqrt(x))
EMULATOR_BFLOAT16_FUNCTION(rcp, 1.0f / x)
EMULATOR_BFLOAT16_FUNCTION(trunc, std::trunc(x))
EMULATOR_BFLOAT16_FUNCTION(floor, std::floor(x))
EMULATOR_BFLOAT16_FUNCTION(ceil, std::ceil(x))
EMULATOR_BFLOAT16_FUNCTION(rint, std::nearbyint(x))
#undef EMULATOR_BFLOAT16_FUNCTION

inline int __bfloat162int_rn(__nv_bfloat16 h) {
  return static_cast<int>(std::nearbyint(__bfloat162float(h)));
}
inline int __bfloat162int_rd(__nv_bfloat16 h) {
  return static_cast<int>(std::floor(__bfloat162float(h)));
}

EMULATOR_INLINE __nv_bfloat16 atomicAdd(__nv_bfloat16* address, __nv_bfloat16 value) {
  return emulator::atomic_update(address,
                                 [value](__nv_bfloat16 old) { return __hadd(old, value); });
}
EMULATOR_INLINE __nv_bfloat162 atomicAdd(__nv_bfloat162* address, __nv_bfloat162 value) {
  return emulator::atomic_update(address,
                                 [value](__nv_bfloat162 old) { return __hadd2(old, value); });
}
EMULATOR_INLINE unsigned short atomicCAS(__nv_bfloat16* address, unsigned short compare,
                                         unsigned short value) {
  return atomicCAS(reinterpret_cast<unsigned short*>(address), compare, value);
}
