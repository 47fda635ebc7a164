// 16-bit floating-point storage types. Arithmetic happens in float: both convert implicitly from
// and to float, rounding to nearest even.
#pragma once

#include <bit>
#include <cstdint>
#if defined(__F16C__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

#include "ferrite/core/host_device.h"

namespace ferrite {

namespace detail {

/// IEEE 754 binary32 to binary16, round to nearest even; overflow becomes infinity, NaN stays a
/// (quiet) NaN with its sign and upper payload. In integer arithmetic; the same bits as F16C's.
inline std::uint16_t float_to_half_bits_portable(float value) {
  const std::uint32_t x = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (x >> 16) & 0x8000u;
  const std::uint32_t magnitude = x & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Adding 0.5 aligns the subnormal's last bit with float's last bit and rounds for us.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

inline float half_bits_to_float_portable(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    const std::uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude < 0x0400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

FERRITE_HOST_DEVICE inline std::uint16_t float_to_half_bits(float value) {
#if defined(__CUDA_ARCH__)
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#elif defined(__F16C__) && !defined(__CUDACC__)
  // Not _cvtss_sh(): Clang's is an expression of C.
  return static_cast<std::uint16_t>(
      _mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_NEAREST_INT)));
#else
  return float_to_half_bits_portable(value);
#endif
}

FERRITE_HOST_DEVICE inline float half_bits_to_float(std::uint16_t bits) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#elif defined(__F16C__) && !defined(__CUDACC__)
  return _cvtsh_ss(bits);
#else
  return half_bits_to_float_portable(bits);
#endif
}

FERRITE_HOST_DEVICE inline std::uint16_t float_to_bfloat16_bits(float value) {
#if defined(__CUDA_ARCH__)
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  const std::uint32_t x = std::bit_cast<std::uint32_t>(value);
  if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((x >> 16) | 0x40u);
  return static_cast<std::uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
#endif
}

FERRITE_HOST_DEVICE inline float bfloat16_bits_to_float(std::uint16_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
#else
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
#endif
}

}  // namespace detail

/// IEEE 754 binary16.
struct Half {
  std::uint16_t bits;  ///< the bits of the number

  Half() = default;
  FERRITE_HOST_DEVICE Half(float value) : bits(detail::float_to_half_bits(value)) {}
  /// As float, exactly.
  FERRITE_HOST_DEVICE operator float() const { return detail::half_bits_to_float(bits); }
};

/// The upper 16 bits of a binary32.
struct BFloat16 {
  std::uint16_t bits;  ///< the bits of the number

  BFloat16() = default;
  FERRITE_HOST_DEVICE BFloat16(float value) : bits(detail::float_to_bfloat16_bits(value)) {}
  /// As float, exactly.
  FERRITE_HOST_DEVICE operator float() const { return detail::bfloat16_bits_to_float(bits); }
};

}  // namespace ferrite
