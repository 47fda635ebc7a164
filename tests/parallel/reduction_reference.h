// Values that ranks reduce, and the expected results.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ferrite/core/dtype.h"
#include "ferrite/parallel/comm/reduce_op.h"

namespace ferrite::test {

inline constexpr DType kReducedTypes[] = {kFloat32, kFloat16, kBFloat16, kFloat64,
                                          kInt64,   kInt32,   kUInt8};
inline constexpr parallel::ReduceOp kReduceOps[] = {
    parallel::ReduceOp::sum, parallel::ReduceOp::avg, parallel::ReduceOp::product,
    parallel::ReduceOp::min, parallel::ReduceOp::max};

/// Element i of rank `rank`: between -2 and 2 in eighths, or small integers; exact in every type.
inline double value_of(DType dtype, int rank, std::int64_t i, std::uint64_t seed = 1) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ULL +
                    static_cast<std::uint64_t>(rank) * 0x2545f491ULL +
                    static_cast<std::uint64_t>(i) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 29)) * 0x94d049bb133111ebULL;
  x ^= x >> 32;
  return is_floating(dtype) ? (static_cast<double>(x % 33) - 16) / 8 : static_cast<double>(x % 7);
}

inline std::vector<std::byte> values_of(DType dtype, int rank, std::int64_t n,
                                        std::uint64_t seed = 1) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(n) * itemsize(dtype));
  dispatch_numeric(dtype, "test", [&]<class T>() {
    T* const values = reinterpret_cast<T*>(bytes.data());
    for (std::int64_t i = 0; i < n; ++i)
      values[i] = static_cast<T>(static_cast<Compute<T>>(value_of(dtype, rank, i, seed)));
  });
  return bytes;
}

inline double reduced(DType dtype, parallel::ReduceOp op, int ranks, std::int64_t i,
                      std::uint64_t seed = 1) {
  using parallel::ReduceOp;
  double result = value_of(dtype, 0, i, seed);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = value_of(dtype, rank, i, seed);
    if (op == ReduceOp::product)
      result *= value;
    else if (op == ReduceOp::min)
      result = std::fmin(result, value);
    else if (op == ReduceOp::max)
      result = std::fmax(result, value);
    else
      result += value;
  }
  return op == ReduceOp::avg ? result / ranks : result;
}

/// "" if `bytes` are the reduction of all ranks' values, up to one rounding of the type; else
/// describes the first wrong element.
inline std::string difference(const std::vector<std::byte>& bytes, DType dtype,
                              parallel::ReduceOp op, int ranks, std::uint64_t seed = 1) {
  const double epsilon = dtype == kFloat16    ? 1.0 / 1024
                         : dtype == kBFloat16 ? 1.0 / 128
                         : dtype == kFloat32  ? 3e-7
                         : dtype == kFloat64  ? 1e-15
                                              : 0;
  std::string problem;
  dispatch_numeric(dtype, "test", [&]<class T>() {
    const T* const values = reinterpret_cast<const T*>(bytes.data());
    const auto n = static_cast<std::int64_t>(bytes.size() / sizeof(T));
    for (std::int64_t i = 0; i < n && problem.empty(); ++i) {
      double expected = reduced(dtype, op, ranks, i, seed);
      if (dtype == kUInt8)
        expected = static_cast<std::uint8_t>(static_cast<std::int64_t>(expected));
      const auto got = static_cast<double>(static_cast<Compute<T>>(values[i]));
      if (!(std::abs(got - expected) <= epsilon * std::abs(expected)))
        problem = std::string(name(dtype)) + " " + std::string(parallel::name(op)) + " of " +
                  std::to_string(n) + " among " + std::to_string(ranks) + ": element " +
                  std::to_string(i) + " is " + std::to_string(got) + ", not " +
                  std::to_string(expected);
    }
  });
  return problem;
}

}  // namespace ferrite::test
