// Attention as a graph for cuDNN, which recognizes the products, the softmax and their gradients in
// it and computes them in one kernel, without the weights in memory.
#pragma once

#include "ferrite/kernels/cuda/vendor/cudnn.h"
#include "ferrite/kernels/cuda/vendor/cudnn/graph.h"

namespace ferrite::kernels::cuda::vendor {

/// The names of operands in the graph.
struct AttentionNames {
  static constexpr std::int64_t kQuery = 1, kKey = 2, kValue = 3, kOut = 4, kLse = 5, kGradOut = 6,
                                kGradQuery = 7, kGradKey = 8, kGradValue = 9;
  /// Numbers: the scale, minus infinity (if causal) and 1 (backward).
  static constexpr std::int64_t kScale = 10, kNever = 11, kOne = 12;
  /// Scratch memory of the backward pass, float32: [B, H, L], and [B, H, L, E], which has to be 0.
  static constexpr std::int64_t kMeans = 13, kQuerySums = 14;
  static constexpr std::int64_t kFirstVirtual = 20;
};

/// One plan serves all calls with the same problem. Throws NotSupported if cuDNN refuses the graph.
Plans plans_of(const PlanTarget& target, const AttentionProblem& problem);

}  // namespace ferrite::kernels::cuda::vendor
