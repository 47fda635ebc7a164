// What a batch norm needs to know of its input, where the op before it has found it out, or where
// the input is only a part of the batch.
#pragma once

#include <memory>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// Each channel's mean and sum of squared deviations from it (M2), over all dimensions but the
/// second: [C], float32, float64 of float64. Constants, off the tape: what follows from their
/// depending on the input is part of batch_norm's gradient.
struct ChannelStatistics {
  Tensor mean, m2;
  bool defined() const { return mean.defined(); }
};

/// A batch that lies in parts, of any sizes, with several processes (or threads), which run the
/// same ops together: what batch_norm needs to normalise by the statistics of the whole
/// (parallel/ddp/sync_batch_norm.h). Called once in forward, by gather(), and once in backward, by
/// sum(), possibly in another thread. The tensors are contiguous, on the input's device; work is
/// ordered with the current stream.
class BatchParts {
 public:
  virtual ~BatchParts() = default;
  /// [n] of this part; returns [parts, n], in the same order everywhere.
  virtual Tensor gather(const Tensor& of_this_part) = 0;
  /// Adds up those of all parts, in place.
  virtual void sum(const Tensor& of_this_part) = 0;
  /// Whether this part is the whole: then it must have more than one value a channel.
  virtual bool alone() const { return false; }
};

}  // namespace ferrite
