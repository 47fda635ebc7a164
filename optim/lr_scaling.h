// Learning rates for larger batches, as when more processes share in a step.
#pragma once

#include <cstdint>
#include <string_view>

namespace ferrite::optim {

/// How the learning rate grows with the batch, by k = global_batch / base_batch.
enum class LRScaling : std::uint8_t {
  none,    ///< not at all
  linear,  ///< by k: k steps on small batches come to about one on their union (Goyal et al. 2017,
           ///< "Accurate, Large Minibatch SGD"), with several epochs of warmup (WarmupLR) and up to
           ///< batches of about 8192
  sqrt,    ///< by sqrt(k), which keeps the variance of a step's gradient (Krizhevsky 2014, "One
         ///< weird trick for parallelizing convolutional neural networks"); the usual one for Adam
};
/// "none", "linear" or "sqrt", as programs take it; ValueError for others.
LRScaling lr_scaling(std::string_view text);

/// The learning rate for `global_batch`, the samples of a step on all ranks together (a rank's
/// batch * accumulated batches * world size), of one that is right for `base_batch`. Where a batch
/// mean is averaged over ranks, as DistributedDataParallel does, nothing else changes with the
/// number of ranks. ValueError where a batch is below 1 or the rate below 0.
double scale_lr(double base_lr, std::int64_t base_batch, std::int64_t global_batch,
                LRScaling rule = LRScaling::linear);

}  // namespace ferrite::optim
