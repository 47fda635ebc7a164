#pragma once

#include "kernels/optim.h"

namespace ferrite::kernels::cpu {

void sgd(const OptimBatch& batch, const SgdArgs& args);
void adam(const OptimBatch& batch, const AdamArgs& args);
void rmsprop(const OptimBatch& batch, const RmspropArgs& args);

void sum_of_powers(const FlatTensors& tensors, double p, const View& out);
void clip_scale(const std::vector<const double*>& sums, double p, double max_norm, const View& norm,
                const View& scale);
void scale_all(const FlatTensors& tensors, const View& scale);
void clamp_all(const FlatTensors& tensors, double limit);

}  // namespace ferrite::kernels::cpu
