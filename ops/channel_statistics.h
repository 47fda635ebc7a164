// Channel statistics for a batch norm, if the preceding op has computed them, or if the input is
// only a part of the batch.
#pragma once

#include <memory>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// Each channel's mean and sum of squared deviations from it (M2), over all dimensions but the
/// second: [C], float32 (float64 for float64). Constants, off the tape: batch_norm's gradient
/// accounts for their dependence on the input.
struct ChannelStatistics {
  Tensor mean;  ///< the mean of each channel
  Tensor m2;    ///< the sum of squared distances from the mean, of each channel
  /// They are each channel's sum and sum of squares instead (conv2d_sums).
  bool are_sums = false;
  /// Whether there are any.
  bool defined() const { return mean.defined(); }
};

/// A batch split into parts of any sizes over several processes (or threads), which run the same
/// ops together: allows batch_norm to normalise by the statistics of the whole batch
/// (parallel/ddp/sync_batch_norm.h). Called once in forward, by gather(), and once in backward, by
/// sum(), possibly in another thread. The tensors are contiguous, on the input's device; work is
/// ordered with the current stream.
class BatchParts {
 public:
  virtual ~BatchParts() = default;
  /// [n] for this part; returns [parts, n], in the same order everywhere.
  virtual Tensor gather(const Tensor& of_this_part) = 0;
  /// Sums the tensors of all parts, in place.
  virtual void sum(const Tensor& of_this_part) = 0;
  /// Whether this part is the whole batch: then it must have more than one value per channel.
  virtual bool alone() const { return false; }
};

}  // namespace ferrite
