#include "ferrite/parallel/data_parallel/data_parallel_criterion.h"

#include <numeric>

#include "ferrite/core/error.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/reduce.h"

namespace ferrite::parallel::detail {

void check_parts(std::size_t outputs, std::size_t targets, std::size_t devices) {
  FERRITE_CHECK(outputs > 0 && outputs <= devices, ValueError, "data_parallel_criterion",
                "got outputs of {} replicas, there are {} devices", outputs, devices);
  FERRITE_CHECK(outputs == targets, ShapeError, "data_parallel_criterion",
                "got outputs of {} replicas and targets for {}: their batches differ", outputs,
                targets);
}

Tensor reduce_losses(std::vector<Tensor> losses, std::span<const std::int64_t> sizes,
                     const Device& target, CriterionReduction reduction) {
  const auto total = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), 0LL));
  const auto count = static_cast<double>(losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    Tensor& loss = losses[i];
    FERRITE_CHECK(loss.defined() && loss.numel() == 1, ShapeError, "data_parallel_criterion",
                  "expected a loss with one element, got {}",
                  loss.defined() ? loss.describe() : "none");
    loss = loss.reshape({});
    if (losses.size() == 1 || reduction == CriterionReduction::sum) continue;
    const bool by_size = reduction == CriterionReduction::mean && total > 0;
    loss = loss * (by_size ? static_cast<double>(sizes[i]) / total : 1 / count);
  }
  if (losses.size() == 1) return losses[0].to(target);
  return gather(std::span<const Tensor>(losses), target, 0).sum();
}

Tensor reduce_losses(const std::vector<std::pair<Tensor, Tensor>>& losses,
                     std::span<const std::int64_t> sizes, const Device& target,
                     CriterionReduction reduction) {
  FERRITE_CHECK(reduction == CriterionReduction::mean, ValueError, "data_parallel_criterion",
                "losses in pairs, a sum and what it is divided by, make a mean; the reduction "
                "asked for is another");
  std::vector<Tensor> sums, counts;
  for (const auto& [sum, count] : losses) {
    sums.push_back(sum);
    counts.push_back(count);
  }
  const Tensor sum = reduce_losses(std::move(sums), sizes, target, CriterionReduction::sum);
  const Tensor count = reduce_losses(std::move(counts), sizes, target, CriterionReduction::sum);
  return sum / count.to(sum.dtype());
}

}  // namespace ferrite::parallel::detail
