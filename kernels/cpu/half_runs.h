// Runs of 16-bit values to and from float, at vector speed.
#pragma once

#include <cstdint>

#include "ferrite/core/half.h"

namespace ferrite::kernels::cpu {

inline void widen(float* out, const Half* in, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
#endif
  for (; i < n; ++i) out[i] = in[i];
}
inline void narrow(Half* out, const float* in, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; ++i) out[i] = in[i];
}

inline void widen(float* out, const BFloat16* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i];
}
inline void narrow(BFloat16* out, const float* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i];
}

}  // namespace ferrite::kernels::cpu
