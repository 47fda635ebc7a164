// How parameters get to the replicas on the tape, and gradients back.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/parallel/data_parallel/device_comm.h"

namespace ferrite::parallel::dp {

/// comm.broadcast(), off the tape, when no other thread uses a comm for replicas.
std::vector<std::vector<Tensor>> broadcast_in_turn(DeviceComm& comm,
                                                   std::span<const Tensor> tensors);

/// The sums over lists[d][i], which are on devices()[d + 1], on the root. Differentiable any number
/// of times, where a graph is being created.
std::vector<Tensor> reduce_lists(const std::shared_ptr<DeviceComm>& comm,
                                 std::vector<std::vector<Tensor>> lists);

/// Puts on the tape that copies[d][i], on devices()[d + 1], are the values of parameters[i] on the
/// root. On the way back, the gradients of a device are collected by one side node (of the device's
/// queue), and when all devices' are there another (of the root's) sums them and hands the sums to
/// the parameters. Both work on streams for this alone, of which there are two a device: `turn`
/// says which.
void record_bucket(const std::shared_ptr<DeviceComm>& comm, std::span<const Tensor> parameters,
                   std::span<const std::vector<Tensor>> copies, std::size_t turn);

}  // namespace ferrite::parallel::dp
