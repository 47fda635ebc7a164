// Division by a number that is constant for a launch.
#pragma once

#include <cstdint>

#include "ferrite/core/host_device.h"

namespace ferrite::kernels::cuda {

/// Divides by multiplication and shift (Granlund and Montgomery, "Division by Invariant Integers
/// using Multiplication", PLDI 1994, figure 4.1). Dividends and divisor are below 2^31.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(std::uint32_t divisor) : divisor_(divisor) {
    while ((std::uint64_t{1} << shift_) < divisor) ++shift_;
    const std::uint64_t power = std::uint64_t{1} << 32;
    factor_ =
        static_cast<std::uint32_t>(power * ((std::uint64_t{1} << shift_) - divisor) / divisor + 1);
  }

  FERRITE_HOST_DEVICE std::uint32_t quotient(std::uint32_t n) const {
#if defined(__CUDA_ARCH__)
    const std::uint32_t high = __umulhi(n, factor_);
#else
    const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * factor_) >> 32);
#endif
    return (high + n) >> shift_;
  }
  /// Replaces `n` by its quotient and returns the remainder.
  FERRITE_HOST_DEVICE std::uint32_t split(std::uint32_t& n) const {
    const std::uint32_t q = quotient(n), rest = n - q * divisor_;
    n = q;
    return rest;
  }
  FERRITE_HOST_DEVICE std::uint32_t value() const { return divisor_; }

 private:
  std::uint32_t divisor_ = 1, factor_ = 1, shift_ = 0;
};

/// The same for dividends and divisors below 2^62.
class WideDivisor {
 public:
  WideDivisor() = default;
  explicit WideDivisor(std::uint64_t divisor) {
    while ((std::uint64_t{1} << shift_) < divisor) ++shift_;
    factor_ = static_cast<std::uint64_t>(
        (static_cast<Twice>((std::uint64_t{1} << shift_) - divisor) << 64) / divisor + 1);
  }

  FERRITE_HOST_DEVICE std::uint64_t quotient(std::uint64_t n) const {
#if defined(__CUDA_ARCH__)
    const std::uint64_t high = __umul64hi(n, factor_);
#else
    const auto high = static_cast<std::uint64_t>((static_cast<Twice>(n) * factor_) >> 64);
#endif
    return (high + n) >> shift_;
  }

 private:
  __extension__ typedef unsigned __int128 Twice;
  std::uint64_t factor_ = 1;
  std::uint32_t shift_ = 0;
};

}  // namespace ferrite::kernels::cuda
