// What layers and collectives of tensor parallelism share: their group, and weights that are drawn
// whole.
#pragma once

#include <cstdint>
#include <memory>

#include "ferrite/core/generator.h"
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

struct DrawnLinear {
  Tensor weight, bias;  ///< on the host; the bias may be undefined
};

/// What nn::Linear would draw from `generator`, or from the host's default generator. With a group
/// all its ranks, which must call it, draw the same by rank 0's state of the generator, and leave
/// theirs as rank 0 leaves its own.
DrawnLinear draw_linear(std::int64_t in_features, std::int64_t out_features, bool bias,
                        Generator* generator, ProcessGroup* group);

}  // namespace ferrite::parallel::tensor_parallel
