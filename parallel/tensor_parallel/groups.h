// What layers and collectives of tensor parallelism ask of a group.
#pragma once

#include <cstdint>
#include <memory>

#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel::tensor_parallel {

/// `group`, or the default group where it is null; null where it has one rank, or there is none.
std::shared_ptr<ProcessGroup> group_of_several(std::shared_ptr<ProcessGroup> group);

/// `size` by the number of ranks; ValueError, naming `what`, where it does not divide.
std::int64_t divided(std::int64_t size, const ProcessGroup& group, const char* op,
                     const char* what);

/// The ranks' tensors, of one shape, one after another along `dim`; off the tape.
Tensor all_gather_parts(const Tensor& part, int dim, ProcessGroup& group);

}  // namespace ferrite::parallel::tensor_parallel
