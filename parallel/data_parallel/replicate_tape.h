// How parameters reach the replicas on the tape, and gradients return.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/parallel/data_parallel/device_comm.h"

namespace ferrite::parallel::dp {

/// comm.broadcast(), off the tape, serialized with other threads that use a comm for replicas.
std::vector<std::vector<Tensor>> broadcast_in_turn(DeviceComm& comm,
                                                   std::span<const Tensor> tensors);

/// The sums over lists[d][i], which are on devices()[d + 1], on the root. Differentiable any number
/// of times, if a graph is being created.
std::vector<Tensor> reduce_lists(const std::shared_ptr<DeviceComm>& comm,
                                 std::vector<std::vector<Tensor>> lists);

/// Records on the tape that copies[d][i], on devices()[d + 1], are the values of parameters[i] on
/// the root. In backward, the gradients of a device are collected by one side node (in the device's
/// queue); when those of all devices have arrived, another (in the root's queue) sums them and
/// passes the sums to the parameters. Both use dedicated streams, of which there are two per
/// device: `turn` selects one.
void record_bucket(const std::shared_ptr<DeviceComm>& comm, std::span<const Tensor> parameters,
                   std::span<const std::vector<Tensor>> copies, std::size_t turn);

}  // namespace ferrite::parallel::dp
