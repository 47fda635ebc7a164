// A convolution as a graph for cuDNN, of one to three operations.
#pragma once

#include "ferrite/kernels/conv_problem.h"
#include "ferrite/kernels/cuda/vendor/cudnn/graph.h"

namespace ferrite::kernels::cuda::vendor {

/// One plan serves all calls with the same problem. Throws NotSupported if cuDNN refuses the graph.
Plans plans_of(const PlanTarget& target, const ConvProblem& problem);

/// Operands that only some problems have.
struct ConvExtras {
  const void *bias = nullptr, *sum = nullptr, *squares = nullptr;
};
struct ConvPointers {
  const void *input, *weight, *out;  // cuDNN writes the computed one
  ConvExtras extras;                 // null unless the problem has them
};
GraphOperands operands_of(const ConvPointers& pointers);

}  // namespace ferrite::kernels::cuda::vendor
