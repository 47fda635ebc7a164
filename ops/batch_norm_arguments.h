// What every form of batch norm checks, and the statistics of its batch.
#pragma once

#include "ferrite/kernels/norm.h"
#include "ferrite/ops/norm.h"

namespace ferrite::ops::norms {

/// An input as kernels see it, and the format of results.
struct Channels {
  kernels::ChannelLayout layout;
  MemoryFormat format;
};
Channels channels_of(const Tensor& input);

/// The arguments of a batch norm, which outlive it; `op` names it in errors and on the tape.
struct BatchNorm {
  const char* op;
  const Tensor &input, &running_mean, &running_var, &weight, &bias;
  const BatchNormFuncOptions& options;
};

void check_batch_norm(const BatchNorm& args);
/// Throws ShapeError for a single value a channel, unless there are other parts.
void check_count(const BatchNorm& args, const kernels::ChannelLayout& layout);

/// The statistics of a batch of one part, known or computed, and room for what training makes of
/// them.
struct TrainedStatistics {
  ChannelStatistics of_batch;
  Tensor mean, invstd;

  kernels::BatchTraining training(const BatchNorm& args) const;
};
TrainedStatistics batch_statistics(const BatchNorm& args, const Tensor& x,
                                   const kernels::ChannelLayout& layout);
/// For the reduction of the gradients: undefined for devices that do not use them.
Tensor backward_counters(const Device& device);
/// Counts the changes of the running statistics.
void changed_by_training(const BatchNorm& args);

}  // namespace ferrite::ops::norms
