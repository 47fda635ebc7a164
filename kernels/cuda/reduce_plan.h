// The distribution of a reduction over threads and blocks. It depends only on the problem's sizes,
// so that every GPU sums in the same order.
#pragma once

#include <cstdint>

namespace ferrite::kernels::cuda {

inline constexpr int kReduceThreads = 256;

/// The number of packs that a thread has in flight. A pack is several adjacent elements, or one.
constexpr int reduce_unroll(int pack) { return pack == 1 ? 8 : 4; }

/// A block works on `outputs` outputs (or packs of them) with `lanes` threads each, both powers of
/// two; each output's elements are cut into `splits` segments.
struct ReducePlan {
  int lanes = 1;
  int outputs = kReduceThreads;
  std::int64_t segment = 1;  ///< elements, or packs of them, per split
  int splits = 1;
  unsigned blocks = 1;  ///< blocks that cover all outputs
};

/// For outputs whose elements are adjacent: `units` packs each. `lanes` is at most a warp, or the
/// whole block.
ReducePlan plan_rows(std::int64_t outputs, std::int64_t units, int unroll);
/// For adjacent outputs: `outputs` packs, with `count` elements each.
ReducePlan plan_columns(std::int64_t outputs, std::int64_t count, int unroll);
/// For joining `splits` results of each output. Only lanes, outputs and blocks are set.
ReducePlan plan_partials(std::int64_t outputs, int splits);

}  // namespace ferrite::kernels::cuda
