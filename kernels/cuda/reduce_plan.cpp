#include "ferrite/kernels/cuda/reduce_plan.h"

#include <algorithm>
#include <bit>

namespace ferrite::kernels::cuda {

namespace {

// A large GPU holds about a thousand blocks; twice as many avoid an idle tail.
constexpr std::int64_t kEnoughBlocks = 2048;
// The most elements that a thread adds to one accumulator, which limits the rounding error of
// float32.
constexpr std::int64_t kMostSteps = 512;
constexpr std::int64_t kMostSplits = 32768;
// A second kernel, for the parts of a split, costs about as much as so many rounds of loads.
constexpr std::int64_t kFewRounds = 8;

int power_of_two(std::int64_t at_least, int most) {
  return static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(at_least, 1, most))));
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Splits the `units` of each output so that there are enough blocks, each with work for all
/// threads.
void split(ReducePlan& plan, std::int64_t units, int unroll) {
  const std::int64_t least = std::int64_t{plan.lanes} * unroll;
  const std::int64_t most = std::int64_t{plan.lanes} * kMostSteps;
  std::int64_t splits = std::min(kEnoughBlocks / plan.blocks, ceil_divide(units, least));
  if (units <= kFewRounds * least) splits = 1;
  splits = std::clamp<std::int64_t>(std::max(splits, ceil_divide(units, most)), 1, kMostSplits);
  plan.segment = std::max<std::int64_t>(1, ceil_divide(units, splits));
  plan.splits = static_cast<int>(std::max<std::int64_t>(1, ceil_divide(units, plan.segment)));
}

void cover(ReducePlan& plan, std::int64_t outputs) {
  plan.outputs = kReduceThreads / plan.lanes;
  plan.blocks = static_cast<unsigned>(ceil_divide(outputs, plan.outputs));
}

}  // namespace

ReducePlan plan_rows(std::int64_t outputs, std::int64_t units, int unroll) {
  constexpr int kWarp = 32;
  ReducePlan plan;
  // A warp needs no barriers. A block is better for long rows, or if there are few rows.
  const bool wide = units > kWarp * unroll * 8 ||
                    (units > kWarp * unroll && outputs * kWarp < kEnoughBlocks * kReduceThreads);
  plan.lanes = wide ? kReduceThreads : power_of_two(ceil_divide(units, 4), kWarp);
  cover(plan, outputs);
  if (wide)
    split(plan, units, unroll);
  else
    plan.segment = std::max<std::int64_t>(1, units);
  return plan;
}

ReducePlan plan_columns(std::int64_t outputs, std::int64_t count, int unroll) {
  // At least a warp of adjacent outputs, if there are so many; more of them if there are fewer
  // lanes.
  const int width = power_of_two(outputs, 32);
  ReducePlan plan;
  plan.lanes = power_of_two(ceil_divide(count, unroll), kReduceThreads / width);
  if (std::int64_t{kReduceThreads} / plan.lanes > outputs)
    plan.lanes = kReduceThreads / power_of_two(outputs, kReduceThreads);
  cover(plan, outputs);
  split(plan, count, unroll);
  return plan;
}

ReducePlan plan_partials(std::int64_t outputs, int splits) {
  ReducePlan plan;
  plan.lanes = std::max(power_of_two(ceil_divide(splits, 8), kReduceThreads), 8);
  plan.lanes = std::max(plan.lanes, kReduceThreads / power_of_two(outputs, kReduceThreads));
  plan.lanes = std::min(plan.lanes, kReduceThreads);
  cover(plan, outputs);
  return plan;
}

}  // namespace ferrite::kernels::cuda
