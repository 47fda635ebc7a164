// SyncBatchNorm: batch normalisation by the statistics of a batch whose parts lie with the ranks of
// a process group, as torch.nn.SyncBatchNorm.
//
//   nn::ResNet18 model(10);
//   parallel::convert_sync_batchnorm(model);
//   parallel::DistributedDataParallel ddp(model);
#pragma once

#include <cstdint>
#include <memory>

#include "ferrite/nn/norm.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

/// Has every batch norm in the module, itself included, normalise training batches by the
/// statistics of all ranks, in place: parameters, buffers, their names, hooks and the module's
/// fused operations stay what they are. Prints as SyncBatchNorm. Returns the module.
///
/// In training, forward() makes one all-gather a layer (mean, squared deviations and count of each
/// channel, float32 beside 16-bit inputs) and backward one all-reduce (two sums a channel); every
/// rank must run the same layers in the same order. Parts may be of different sizes, and empty.
/// Running statistics move by the whole batch, the same on all ranks. Gradients of weight and bias
/// are of this rank's part, for DistributedDataParallel to average. Gradients are once
/// differentiable.
///
/// In eval mode, and in a group of one rank, it is a plain batch norm. Without a `group`, the
/// default group at the time of each forward() is meant; where there is none, the process is alone.
/// A group's operations run one after another: where gradients are reduced meanwhile, a layer's
/// sums wait behind a bucket under way, unless they have a group of their own
/// (`group->new_group({0, 1, ...})`).
nn::Module& convert_sync_batchnorm(nn::Module& module, std::shared_ptr<ProcessGroup> group = {});
/// Takes it back: every rank normalises by its own batch again.
nn::Module& revert_sync_batchnorm(nn::Module& module);

/// The layer by itself, for [N, C], [N, C, L] or [N, C, H, W].
class SyncBatchNorm : public nn::Cloneable<SyncBatchNorm, nn::BatchNorm> {
 public:
  explicit SyncBatchNorm(std::int64_t num_features, const nn::BatchNormOptions& options = {},
                         std::shared_ptr<ProcessGroup> group = {});

 protected:
  void check_input(const Tensor& input) const override;
};

}  // namespace ferrite::parallel
