// Losses computed by the replicas, each for its part of the batch: outputs stay on their devices,
// and the first device needs no more memory than the others.
//
//   parallel::DataParallelCriterion criterion(dp, [](const Tensor& logits, const Tensor& labels) {
//     return cross_entropy(logits, labels);
//   });
//   criterion(dp.parallel_forward(images), labels).backward();
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/parallel/data_parallel/data_parallel.h"

namespace ferrite::parallel {

/// How the losses of the parts of a batch are combined.
enum class CriterionReduction : std::uint8_t {
  /// Losses are means over their parts, and the result is the mean over the batch: each part is
  /// weighted by its share of the batch, so that gradients equal those of one device, whatever the
  /// sizes of the parts. For weighted means, or means that leave labels out, this is an
  /// approximation: return pairs instead.
  mean,
  sum,            ///< losses are sums, and so is the result
  mean_of_means,  ///< as in PyTorch-Encoding's DataParallelCriterion: parts have equal weight
};

struct DataParallelCriterionOptions {
  /// How one loss is made of those of the parts.
  CriterionReduction reduction = CriterionReduction::mean;
};

namespace detail {

/// `losses`, one number each on its device, combined into one on `target`. `sizes` of the parts of
/// the batch.
Tensor reduce_losses(std::vector<Tensor> losses, std::span<const std::int64_t> sizes,
                     const Device& target, CriterionReduction reduction);
/// The sum of the first elements divided by the sum of the second, as one number on `target`.
Tensor reduce_losses(const std::vector<std::pair<Tensor, Tensor>>& losses,
                     std::span<const std::int64_t> sizes, const Device& target,
                     CriterionReduction reduction);
/// ShapeError unless there is one part of the targets per output.
void check_parts(std::size_t outputs, std::size_t targets, std::size_t devices);

template <class F>
inline constexpr bool is_module = std::derived_from<std::remove_cvref_t<F>, nn::Module>;

}  // namespace detail

/// `F` is a function f(output, targets...) that returns a tensor with one element; or a pair of
/// them, a sum and its divisor, such as the number of counted labels: the result is then the
/// quotient of the totals, which equals that of one device however the labels are distributed
/// (CriterionReduction::mean, else ValueError). It is called by several threads at once. Or it is a
/// module with such a forward, as nn::CrossEntropyLoss, on the first device: it is replicated, and
/// its parameters get their gradients.
template <class F>
class DataParallelCriterion {
 public:
  /// Both must outlive this; functions and temporary modules are stored here.
  template <class G>
  explicit DataParallelCriterion(const DataParallelBase& dp, G&& criterion,
                                 const DataParallelCriterionOptions& options = {})
      : dp_(dp), criterion_(std::forward<G>(criterion)), options_(options) {}

  /// The loss, 0-dimensional, on the output device. `outputs` are the results of
  /// parallel_forward(); targets, of the whole batch, are split like inputs (ShapeError if that
  /// makes another number of parts), each to the device of its output.
  template <class R, class... Targets>
  Tensor operator()(const std::vector<R>& outputs, const Targets&... targets) {
    using Arguments = std::tuple<R, Targets...>;
    const std::span<const Device> all = dp_.devices();
    detail::check_parts(outputs.size(), outputs.size(), all.size());
    const std::span<const Device> devices = all.first(outputs.size());
    std::vector<std::tuple<Targets...>> parts(outputs.size());
    if constexpr (sizeof...(Targets) > 0)
      parts = scatter(std::tuple<Targets...>(targets...), devices, dp_.options().dim);
    detail::check_parts(outputs.size(), parts.size(), all.size());
    std::vector<Arguments> arguments;
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      sizes.push_back(size_of(outputs[i], parts[i]));
      arguments.push_back(std::tuple_cat(std::tuple<R>(outputs[i]), std::move(parts[i])));
    }
    return detail::reduce_losses(losses(arguments, devices), sizes, dp_.output_device(),
                                 options_.reduction);
  }

 private:
  template <class R, class... Targets>
  std::int64_t size_of(const R& output, const std::tuple<Targets...>& targets) const {
    const std::int64_t size = dp::size_of_part(targets, dp_.options().dim);
    return size >= 0 ? size : dp::size_of_part(output, dp_.options().dim);
  }

  template <class Arguments>
  auto losses(const std::vector<Arguments>& arguments, std::span<const Device> devices) {
    using Criterion = std::remove_cvref_t<F>;
    if constexpr (detail::is_module<F>) {
      if (devices.size() > 1) {
        const Replicas replicas = replicate(criterion_, dp_.comm(devices.size()));
        return parallel_apply<Criterion>(replicas, arguments, devices);
      }
    }
    using Loss = std::remove_cvref_t<decltype(std::apply(criterion_, arguments[0]))>;
    std::vector<Loss> losses(arguments.size());
    parallel_for_devices(devices,
                         [&](std::size_t i) { losses[i] = std::apply(criterion_, arguments[i]); });
    return losses;
  }

  const DataParallelBase& dp_;
  F criterion_;
  const DataParallelCriterionOptions options_;
};

template <class G>
DataParallelCriterion(const DataParallelBase&, G&&)
    -> DataParallelCriterion<std::conditional_t<detail::is_module<G>, G, std::remove_cvref_t<G>>>;
template <class G>
DataParallelCriterion(const DataParallelBase&, G&&, const DataParallelCriterionOptions&)
    -> DataParallelCriterion<std::conditional_t<detail::is_module<G>, G, std::remove_cvref_t<G>>>;

}  // namespace ferrite::parallel
