// Division by a number that the whole launch shares.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

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

  __host__ __device__ std::uint32_t quotient(std::uint32_t n) const {
#if defined(__CUDA_ARCH__)
    const std::uint32_t high = __umulhi(n, factor_);
#else
    const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * factor_) >> 32);
#endif
    return (high + n) >> shift_;
  }
  /// Replaces `n` by its quotient and returns the remainder.
  __host__ __device__ std::uint32_t split(std::uint32_t& n) const {
    const std::uint32_t q = quotient(n), rest = n - q * divisor_;
    n = q;
    return rest;
  }
  __host__ __device__ std::uint32_t value() const { return divisor_; }

 private:
  std::uint32_t divisor_ = 1, factor_ = 1, shift_ = 0;
};

}  // namespace ferrite::kernels::cuda
