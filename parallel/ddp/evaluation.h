// Evaluation by several ranks: their results put together, no sample counted twice.
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
// `group`: the default group where none is given; where there is none either, the process is alone
// and has all results. Every rank calls these together. Nothing is recorded on the tape.
#pragma once

#include <cstdint>
#include <memory>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

/// The tensors of all ranks one after the other along dimension 0, in which they may differ (and
/// be empty): [n_0 + n_1 + ..., *]. The result is new memory on the tensor's device; bool works
/// too. Waits for the device. ValueError for 0-dimensional tensors; ShapeError or DTypeError, on
/// every rank, naming the first rank that differs from rank 0, where the rest does not agree.
Tensor all_gather_uneven(const Tensor& tensor, const std::shared_ptr<ProcessGroup>& group = {});

/// Results of an unshuffled DistributedSampler's samples, [n_r, *] with rank r, in the data set's
/// order: [size, *]. What padding repeated is left out. ValueError where the ranks' numbers of
/// results are not that sampler's, padded or not.
Tensor all_gather_samples(const Tensor& results, std::int64_t size,
                          const std::shared_ptr<ProcessGroup>& group = {});

/// Adds `sums` up over all ranks in place; does nothing for a process alone.
void all_reduce_sums(const Tensor& sums, const std::shared_ptr<ProcessGroup>& group = {});

namespace detail {

/// The same for a meter of the host, by those entries of its state_dict().
StateDict reduced_meter(const StateDict& state, const std::shared_ptr<ProcessGroup>& group);

/// A metric that says what to add up: metrics::Accuracy, ConfusionMatrix; DeviceAverageMeter.
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

/// What all ranks have counted together becomes what each has counted: averages, accuracies and
/// confusion matrices of `metrics` are then those of all samples. The last values and smoothed ones
/// stay this rank's. Once, after the last update; what comes after a second call, without a reset()
/// before, counts ranks times. Metrics on devices are reduced there, without a wait but the
/// group's; those of the host wait.
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
