// Evaluation on several ranks: combines their results without counting a sample twice.
//
//   data::DistributedSampler sampler(test.size(), {.rank = get_rank(), .world_size =
//       get_world_size(), .shuffle = false, .pad = false});
//   for (auto& [images, labels] : loader) {
//     const Tensor logits = model(images);
//     accuracy.update(logits, labels);
//     loss.update(cross_entropy(logits, labels), labels.size(0));
//   }
//   parallel::all_reduce_metrics(accuracy, loss);   // now those of the whole data set
//
// `group`: by default the default group; without one, this process has all results. All ranks must
// call these functions together. Nothing is recorded on the tape.
#pragma once

#include <cstdint>
#include <memory>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

/// The tensors of all ranks concatenated along dimension 0, in which they may differ (and be
/// empty): [n_0 + n_1 + ..., *]. The result is new memory on the tensor's device; bool works too.
/// Waits for the device. ValueError for 0-dimensional tensors; ShapeError or DTypeError, on every
/// rank, naming the first rank that differs from rank 0, if other properties do not agree.
Tensor all_gather_uneven(const Tensor& tensor, const std::shared_ptr<ProcessGroup>& group = {});

/// Results of an unshuffled DistributedSampler's samples, [n_r, *] on rank r, in the data set's
/// order: [size, *]. Repeated samples are left out. ValueError if the ranks' numbers of results do
/// not match that sampler, padded or not.
Tensor all_gather_samples(const Tensor& results, std::int64_t size,
                          const std::shared_ptr<ProcessGroup>& group = {});

/// Sums `sums` over all ranks in place, of one shape and dtype on all; does nothing for a single
/// process.
void all_reduce_sums(const Tensor& sums, const std::shared_ptr<ProcessGroup>& group = {});

namespace detail {

/// The same for a host meter, by these entries of its state_dict().
StateDict reduced_meter(const StateDict& state, const std::shared_ptr<ProcessGroup>& group);

/// A metric that exposes its sums: metrics::Accuracy, ConfusionMatrix; DeviceAverageMeter.
template <class M>
concept HasCounts = requires(const M& metric) {
  { metric.counts() } -> std::convertible_to<Tensor>;
};
template <class M>
concept HasTotals = requires(const M& metric) {
  { metric.totals() } -> std::convertible_to<Tensor>;
};
/// metrics::AverageMeter ("sum", "count") and SmoothedValue ("total", "count").
template <class M>
concept HostMeter = !HasCounts<M> && !HasTotals<M> && requires(M & metric, const StateDict& state) {
  { metric.state_dict() } -> std::convertible_to<StateDict>;
  { metric.count() } -> std::convertible_to<std::int64_t>;
  metric.load_state_dict(state);
};

template <class M>
concept Metric = HasCounts<M> || HasTotals<M> || HostMeter<M>;

}  // namespace detail

/// Replaces each rank's counts by the totals of all ranks: averages, accuracies and confusion
/// matrices of `metrics` are then those of all samples. Last and smoothed values stay local to the
/// rank. Call it once, after the last update; a second call without a reset() in between multiplies
/// the counts by the number of ranks. Metrics on devices are reduced there, waiting only for the
/// group; those on the host block.
template <detail::Metric... Metrics>
void all_reduce_metrics(const std::shared_ptr<ProcessGroup>& group, Metrics&... metrics) {
  const auto reduce = [&]<class M>(M& metric) {
    if constexpr (detail::HasCounts<M>)
      all_reduce_sums(metric.counts(), group);
    else if constexpr (detail::HasTotals<M>)
      all_reduce_sums(metric.totals(), group);
    else
      metric.load_state_dict(detail::reduced_meter(metric.state_dict(), group));
  };
  (reduce(metrics), ...);
}
template <detail::Metric... Metrics>
void all_reduce_metrics(Metrics&... metrics) {
  all_reduce_metrics(std::shared_ptr<ProcessGroup>(), metrics...);
}

}  // namespace ferrite::parallel
