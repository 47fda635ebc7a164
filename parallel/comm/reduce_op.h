// The reductions across ranks, and their algorithms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ferrite::parallel {

/// As torch.distributed.ReduceOp. `avg` is the sum divided by the number of ranks, for floating
/// types only; integers wrap around. 16-bit types are added in float32 and rounded once, at the
/// end; NCCL's own algorithms round them after each addition.
enum class ReduceOp : std::uint8_t { sum, avg, product, min, max };

/// The algorithm of an all-reduce: the backend's best, or Ferrite's own ring on send and recv
/// (parallel/comm/ring_all_reduce.h, parallel/comm/nccl/ring.h), which adds 16-bit types in
/// float32.
enum class AllReduceAlgorithm : std::uint8_t { automatic, ring };

/// "sum", for messages.
constexpr std::string_view name(ReduceOp op) {
  constexpr std::string_view names[] = {"sum", "avg", "product", "min", "max"};
  return names[static_cast<std::size_t>(op)];
}

}  // namespace ferrite::parallel
