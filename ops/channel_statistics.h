// What a batch norm needs to know of its input, where the op before it has found it out.
#pragma once

#include "core/tensor.h"

namespace ferrite {

/// Each channel's mean and sum of squared deviations from it (M2), over all dimensions but the
/// second: [C], float32, float64 of float64. Constants, off the tape: what follows from their
/// depending on the input is part of batch_norm's gradient.
struct ChannelStatistics {
  Tensor mean, m2;
  bool defined() const { return mean.defined(); }
};

}  // namespace ferrite
