// Losses that the replicas compute, each of its part of the batch: outputs stay where they are, and
// the first device holds no more than the others.
//
//   parallel::DataParallelCriterion criterion(dp, [](const Tensor& logits, const Tensor& labels) {
//     return cross_entropy(logits, labels);
//   });
//   criterion(dp.parallel_forward(images), labels).backward();
#pragma once

namespace ferrite::parallel {

// To be written: the criterion is a mean over its part; the result is the mean over the whole
// batch, each part weighted by its share of the batch, so that gradients are those of one device
// whatever the sizes of the parts. Options: Reduction::mean (that), Reduction::sum (losses that are
// sums), Reduction::mean_of_means (PyTorch-Encoding's DataParallelCriterion).

}  // namespace ferrite::parallel
