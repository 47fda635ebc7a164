#pragma once

#include "ferrite/kernels/optim.h"

namespace ferrite::kernels::cpu {

void sgd(const OptimBatch& batch, const SgdArgs& args);
void adam(const OptimBatch& batch, const AdamArgs& args);
void rmsprop(const OptimBatch& batch, const RmspropArgs& args);
void lars(const OptimBatch& batch, const LarsArgs& args);
void lamb(const OptimBatch& batch, const LambArgs& args);

void zero_all(const FlatTensors& tensors);
void scale_all(const FlatTensors& tensors, const View& scale);
void clamp_all(const FlatTensors& tensors, double limit);
void unscale_all(const FlatTensors& to, const FlatTensors& from, const float* inv_scale,
                 float* found_inf);
void check_finite(const FlatTensors& tensors, float* found_inf);

void average_weight(std::int64_t* count, const View& weight, const AverageArgs& args);
void average_all(const FlatTensors& averages, const FlatTensors& values, const View& weight);

void update_scale(const LossScale& scale, const std::vector<float*>& found_inf,
                  const UpdateScaleArgs& args);

void sum_of_powers(const FlatTensors& tensors, double p, const View& out);
void norms(const FlatTensors& tensors, double p, const View& each, const View& all);
void clip_scale(const std::vector<const double*>& sums, double p, double max_norm, const View& norm,
                const View& scale, bool check);

}  // namespace ferrite::kernels::cpu
