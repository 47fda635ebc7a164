// Boundaries of a tensor-parallel region: collectives on the tape, with gradients such that a
// network inside the region trains as if it were not split (Shoeybi, Patwary, Puri, LeGresley,
// Casper, Catanzaro, "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
// Parallelism", 2019, section 3: f is copy_to, g is reduce_from).
//
// Outside the region a tensor is the same on all ranks (devices), and so is its gradient; inside,
// each has a part of the last dimension, or a summand. copy_to and reduce_from are each other's
// gradient, and so are scatter_to and gather_from: all may be differentiated any number of times.
//
// With ranks these are collectives: every rank calls them in the same order, in forward and, by
// running the same graph, in backward. Floating types only; empty tensors are allowed. A group of
// one rank returns the input.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

// ---- Over the ranks of a group, by default the default group (without one there is only this
// process). Names are Megatron's.

/// The input, of any shape; its gradient is the sum of all ranks' gradients. The result shares the
/// input's memory: change neither in place. DTypeError for other than floating types.
Tensor copy_to_tensor_model_parallel_region(const Tensor& input,
                                            std::shared_ptr<ProcessGroup> group = {});
/// The sum of all ranks' inputs, of one shape, in separate memory. DTypeError for other than
/// floating types.
Tensor reduce_from_tensor_model_parallel_region(const Tensor& input,
                                                std::shared_ptr<ProcessGroup> group = {});
/// Sets a number on the ranks' device to the largest of all ranks, or nothing for one rank.
std::function<void(const Tensor&)> largest_of_ranks(std::shared_ptr<ProcessGroup> group);
/// Lets all ranks of the group skip a step of `scaler`, an optim::GradScaler, where one of them
/// found an overflow: with parts of one model they see other gradients, and must keep one scale and
/// equal parameters outside the parts. To be called once on every rank, before training.
template <class Scaler>
void share_overflows(Scaler& scaler, std::shared_ptr<ProcessGroup> group = {}) {
  scaler.set_flag_exchange(largest_of_ranks(std::move(group)));
}
/// This rank's part of the last dimension, in separate memory: [..., n / ranks] of [..., n].
/// ValueError unless the number of ranks divides n, ShapeError for a 0-dimensional input.
Tensor scatter_to_tensor_model_parallel_region(const Tensor& input,
                                               std::shared_ptr<ProcessGroup> group = {});
/// All ranks' inputs, of one shape, concatenated along the last dimension in the order of ranks:
/// [..., n * ranks] of [..., n].
Tensor gather_from_tensor_model_parallel_region(const Tensor& input,
                                                std::shared_ptr<ProcessGroup> group = {});

// ---- Over devices of this process. Work is queued on the devices, which run at the same time,
// without waiting. Sums are made in the order of the devices, in float32 for float16 and bfloat16,
// so that the same inputs give the same bits. ValueError if there is no device, or no part.

/// A copy of the input on each device, in the order of `devices`. The one on the input's device
/// shares its memory.
std::vector<Tensor> copy_to_devices(const Tensor& input, std::span<const Device> devices);
/// The sum of the parts, all of one shape and dtype, on `target`.
Tensor reduce_from_devices(std::span<const Tensor> parts, const Device& target);
/// The last dimension in pieces of split_sizes(), number i on devices[i]: with two devices,
/// [..., 3] and [..., 2] of [..., 5].
std::vector<Tensor> scatter_to_devices(const Tensor& input, std::span<const Device> devices);
/// The parts concatenated along the last dimension, on `target`: the inverse of
/// scatter_to_devices().
Tensor gather_from_devices(std::span<const Tensor> parts, const Device& target);

/// The sizes of `parts` parts of `size`: as equal as possible, the first ones larger by one if it
/// is not divisible (numpy.array_split): 10 in 4 is 3, 3, 2, 2.
std::vector<std::int64_t> split_sizes(std::int64_t size, std::size_t parts);

}  // namespace ferrite::parallel
