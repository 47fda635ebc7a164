// Common parts of tensor-parallel layers and collectives: their group, and weights drawn as a
// whole.
#pragma once

#include <cstdint>
#include <memory>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel::tensor_parallel {

/// `group`, or the default group if it is null; null if it has one rank, or does not exist.
std::shared_ptr<ProcessGroup> group_of_several(std::shared_ptr<ProcessGroup> group);

/// `size` divided by the number of ranks; ValueError, naming `what`, if it is not divisible.
std::int64_t divided(std::int64_t size, const ProcessGroup& group, const char* op,
                     const char* what);

/// The ranks' tensors, all of one shape, concatenated along `dim`; off the tape.
Tensor all_gather_parts(const Tensor& part, int dim, ProcessGroup& group);

struct DrawnLinear {
  Tensor weight, bias;  ///< on the host; the bias may be undefined
};

/// The values that nn::Linear would draw from `generator`, or from the host's default generator.
/// With a group, all its ranks must call it: they draw the same values from rank 0's state of the
/// generator, and end with rank 0's final state.
DrawnLinear draw_linear(std::int64_t in_features, std::int64_t out_features, bool bias,
                        Generator* generator, ProcessGroup* group);

}  // namespace ferrite::parallel::tensor_parallel
