// SyncBatchNorm: batch normalisation by the statistics of a batch distributed over the ranks of a
// process group, as torch.nn.SyncBatchNorm.
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

/// Makes every batch norm in the module, including the module itself, normalise training batches by
/// the statistics of all ranks, in place: parameters, buffers, their names, hooks and the module's
/// fused operations stay. Prints as SyncBatchNorm. Returns the module.
///
/// In training, forward() makes one all-gather per layer (mean, squared deviations and count of
/// each channel, float32 for 16-bit inputs) and backward one all-reduce (two sums per channel);
/// every rank must run the same layers in the same order. Parts may have different sizes, and be
/// empty. Running statistics are updated with the whole batch, the same on all ranks. Gradients of
/// weight and bias are those of this rank's part, for DistributedDataParallel to average. Gradients
/// are once differentiable.
///
/// In eval mode, and in a group of one rank, it is a plain batch norm. Without a `group`, each
/// forward() uses the default group at that time, if there is one. A group's operations run one
/// after another: if gradients are being reduced, a layer's sums wait behind a running bucket,
/// unless they have a group of their own (`group->new_group({0, 1, ...})`).
nn::Module& convert_sync_batchnorm(nn::Module& module, std::shared_ptr<ProcessGroup> group = {});
/// Undoes it: every rank normalises by its own batch again.
nn::Module& revert_sync_batchnorm(nn::Module& module);

/// The layer for [N, C, ...] inputs.
class SyncBatchNorm : public nn::Cloneable<SyncBatchNorm, nn::BatchNorm> {
 public:
  explicit SyncBatchNorm(std::int64_t num_features, const nn::BatchNormOptions& options = {},
                         std::shared_ptr<ProcessGroup> group = {});

 protected:
  void check_input(const Tensor& input) const override;
};

}  // namespace ferrite::parallel
