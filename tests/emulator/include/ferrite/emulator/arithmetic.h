// Arithmetic of device code: cached loads, bit tricks, conversions, approximate functions (exact
// here), min and max.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

// ---- loads and stores with cache hints: of global memory alone
namespace emulator {

inline constexpr std::size_t kSharedArenaBytes = 320 << 10;
extern unsigned char shared_arena[kSharedArenaBytes];

[[noreturn]] void refuse_shared(const char* instruction);

__attribute__((always_inline)) inline void require_global(const void* p, const char* instruction) {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  if (at - reinterpret_cast<std::uintptr_t>(shared_arena) < kSharedArenaBytes)
    refuse_shared(instruction);
}

}  // namespace emulator

#define EMULATOR_LOAD(name)                                  \
  template <class T>                                         \
  __attribute__((always_inline)) inline T name(const T* p) { \
    emulator::require_global(p, #name);                      \
    return *p;                                               \
  }
EMULATOR_LOAD(__ldg)
EMULATOR_LOAD(__ldca)
EMULATOR_LOAD(__ldcg)
EMULATOR_LOAD(__ldcs)
EMULATOR_LOAD(__ldlu)
EMULATOR_LOAD(__ldcv)
#undef EMULATOR_LOAD
#define EMULATOR_STORE(name)                                       \
  template <class T>                                               \
  __attribute__((always_inline)) inline void name(T* p, T value) { \
    emulator::require_global(p, #name);                            \
    *p = value;                                                    \
  }
EMULATOR_STORE(__stwb)
EMULATOR_STORE(__stcg)
EMULATOR_STORE(__stcs)
EMULATOR_STORE(__stwt)
#undef EMULATOR_STORE

// ---- bits
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x ? std::countr_zero(static_cast<unsigned>(x)) + 1 : 0; }
inline int __ffsll(long long x) {
  return x ? std::countr_zero(static_cast<unsigned long long>(x)) + 1 : 0;
}
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1u) << (31 - i);
  return reversed;
}
inline unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
         __brev(static_cast<unsigned>(x >> 32));
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(bytes >> (8 * (selector >> (4 * i) & 7)) & 255) << (8 * i);
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
  return static_cast<unsigned>(both << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift & 31));
}

// ---- integers
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32);
}
inline int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<std::int64_t>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(static_cast<Wide>(a) * b >> 64);
}
inline long long __mul64hi(long long a, long long b) {
  __extension__ using Wide = __int128;
  return static_cast<long long>(static_cast<Wide>(a) * b >> 64);
}
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a < b ? b - a : a - b) + c; }

// ---- bits of floating-point numbers
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

// ---- conversions; like on the device, those to integers saturate, and NaN becomes 0
namespace emulator {
template <class Integer, class Float>
Integer saturate_to(Float x) {
  using Limits = std::numeric_limits<Integer>;
  if (std::isnan(x)) return 0;
  if (x <= static_cast<Float>(Limits::min())) return Limits::min();
  if (x >= static_cast<Float>(Limits::max())) return Limits::max();
  return static_cast<Integer>(x);
}
}  // namespace emulator
#define EMULATOR_TO_INTEGER(from, From, to, To)                                                   \
  inline To __##from##2##to##_rn(From x) { return emulator::saturate_to<To>(std::nearbyint(x)); } \
  inline To __##from##2##to##_rd(From x) { return emulator::saturate_to<To>(std::floor(x)); }     \
  inline To __##from##2##to##_ru(From x) { return emulator::saturate_to<To>(std::ceil(x)); }      \
  inline To __##from##2##to##_rz(From x) { return emulator::saturate_to<To>(std::trunc(x)); }
EMULATOR_TO_INTEGER(float, float, int, int)
EMULATOR_TO_INTEGER(float, float, uint, unsigned)
EMULATOR_TO_INTEGER(float, float, ll, long long)
EMULATOR_TO_INTEGER(float, float, ull, unsigned long long)
EMULATOR_TO_INTEGER(double, double, int, int)
EMULATOR_TO_INTEGER(double, double, uint, unsigned)
EMULATOR_TO_INTEGER(double, double, ll, long long)
EMULATOR_TO_INTEGER(double, double, ull, unsigned long long)
#undef EMULATOR_TO_INTEGER
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

// ---- arithmetic with a stated rounding
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __frsqrt_rn(float a) { return 1.0f / std::sqrt(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }

// ---- functions
inline float rsqrtf(float a) { return 1.0f / std::sqrt(a); }
inline double rsqrt(double a) { return 1.0 / std::sqrt(a); }
inline float rsqrt(float a) { return rsqrtf(a); }
inline float __saturatef(float a) { return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f; }
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float sinpif(float a) { return static_cast<float>(std::sin(3.14159265358979323846 * a)); }
inline float cospif(float a) { return static_cast<float>(std::cos(3.14159265358979323846 * a)); }
inline float normcdff(float a) {
  return static_cast<float>(0.5 * std::erfc(-0.70710678118654752440 * a));
}
// The C library declares these names for itself, so they must be macros.
#define __expf(x) std::exp(static_cast<float>(x))
#define __exp10f(x) std::pow(10.0f, static_cast<float>(x))
#define __logf(x) std::log(static_cast<float>(x))
#define __log2f(x) std::log2(static_cast<float>(x))
#define __log10f(x) std::log10(static_cast<float>(x))
#define __sinf(x) std::sin(static_cast<float>(x))
#define __cosf(x) std::cos(static_cast<float>(x))
#define __tanf(x) std::tan(static_cast<float>(x))
#define __tanhf(x) std::tanh(static_cast<float>(x))
#define __powf(x, y) std::pow(static_cast<float>(x), static_cast<float>(y))
#define __sincosf(x, s, c) (*(s) = __sinf(x), *(c) = __cosf(x))

// ---- min and max, which device code uses without a namespace
#define EMULATOR_MIN_MAX(A, B, T)                                                         \
  inline constexpr T min(A a, B b) {                                                      \
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a); \
  }                                                                                       \
  inline constexpr T max(A a, B b) {                                                      \
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a); \
  }
#define EMULATOR_MIN_MAX_SIGNS(S, U) \
  EMULATOR_MIN_MAX(S, S, S)          \
  EMULATOR_MIN_MAX(U, U, U)          \
  EMULATOR_MIN_MAX(S, U, U)          \
  EMULATOR_MIN_MAX(U, S, U)
EMULATOR_MIN_MAX_SIGNS(int, unsigned)
EMULATOR_MIN_MAX_SIGNS(long, unsigned long)
EMULATOR_MIN_MAX_SIGNS(long long, unsigned long long)
#undef EMULATOR_MIN_MAX_SIGNS
#undef EMULATOR_MIN_MAX
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }
inline double min(float a, double b) { return std::fmin(static_cast<double>(a), b); }
inline double min(double a, float b) { return std::fmin(a, static_cast<double>(b)); }
inline double max(float a, double b) { return std::fmax(static_cast<double>(a), b); }
inline double max(double a, float b) { return std::fmax(a, static_cast<double>(b)); }
