// The weights of a linear layer, drawn whole, of which parts are kept.
#pragma once

#include <cstdint>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel::tensor_parallel {

struct DrawnLinear {
  Tensor weight, bias;  ///< on the host; the bias may be undefined
};

/// What nn::Linear would draw from `generator`, or from the host's default generator. With a group
/// all its ranks, which must call it, draw the same by rank 0's state of the generator, and leave
/// theirs as rank 0 leaves its own.
DrawnLinear draw_linear(std::int64_t in_features, std::int64_t out_features, bool bias,
                        Generator* generator, ProcessGroup* group);

}  // namespace ferrite::parallel::tensor_parallel
