#pragma once

#include "ferrite/kernels/optim.h"

namespace ferrite::kernels::cuda {

void sgd(const Stream& stream, const OptimBatch& batch, const SgdArgs& args);
void adam(const Stream& stream, const OptimBatch& batch, const AdamArgs& args);
void rmsprop(const Stream& stream, const OptimBatch& batch, const RmspropArgs& args);
void lars(const Stream& stream, const OptimBatch& batch, const LarsArgs& args);
void lamb(const Stream& stream, const OptimBatch& batch, const LambArgs& args);

void zero_all(const Stream& stream, const FlatTensors& tensors);
void scale_all(const Stream& stream, const FlatTensors& tensors, const View& scale);
void clamp_all(const Stream& stream, const FlatTensors& tensors, double limit);
void unscale_all(const Stream& stream, const FlatTensors& to, const FlatTensors& from,
                 const float* inv_scale, float* found_inf);
void check_finite(const Stream& stream, const FlatTensors& tensors, float* found_inf);

void average_weight(const Stream& stream, std::int64_t* count, const View& weight,
                    const AverageArgs& args);
void average_all(const Stream& stream, const FlatTensors& averages, const FlatTensors& values,
                 const View& weight);

void update_scale(const Stream& stream, const LossScale& scale,
                  const std::vector<float*>& found_inf, const UpdateScaleArgs& args);

void sum_of_powers(const Stream& stream, const FlatTensors& tensors, double p, const View& out);
void norms(const Stream& stream, const FlatTensors& tensors, double p, const View& each,
           const View& all);
void clip_scale(const Stream& stream, const std::vector<const double*>& sums, double p,
                double max_norm, const View& norm, const View& scale, bool check);

}  // namespace ferrite::kernels::cuda
