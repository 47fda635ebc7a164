// The loss of connectionist temporal classification (Graves et al. 2006), for sequences of labels
// without known positions.
#pragma once

#include <vector>

#include "ferrite/ops/loss.h"

namespace ferrite {

/// The options of ctc_loss() and nn::CTCLoss.
struct CtcLossOptions {
  std::int64_t blank = 0;  ///< the class that is no label
  /// The mean of each loss divided by its target's length (1 if that is 0), or the sum.
  Choice<Reduction> reduction = Reduction::mean;
  /// Losses of targets that do not fit their input become 0, and so do their gradients; otherwise
  /// they are infinite, and their gradients NaN.
  bool zero_infinity = false;
};

/// `log_probs` [T, N, C] or [T, C], from log_softmax; `targets` int64 [N, S], or all targets in a
/// row [sum of the lengths] (which waits for the device, for the longest), or [S] without a batch;
/// `input_lengths` and `target_lengths` int64 [N], or [] without a batch. The result is [], and
/// with Reduction::none [N], or [] without a batch. ShapeError for others, DTypeError unless
/// `log_probs` are floating; ValueError for a blank outside [0, C); a label out of range is an
/// IndexError, and a length out of range a ValueError, thrown like the IndexError of cross_entropy.
///
/// The gradient is PyTorch's: it is exact after the backward of the log_softmax that made
/// `log_probs`. It cannot be differentiated again. 16-bit types are computed in float32.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcLossOptions& options = {});
/// With lengths on the host.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                const std::vector<std::int64_t>& input_lengths,
                const std::vector<std::int64_t>& target_lengths,
                const CtcLossOptions& options = {});

}  // namespace ferrite
