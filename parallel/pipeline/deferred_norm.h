// Batch norms whose running statistics move once a mini-batch, by those of all its micro-batches
// together (torchgpipe's deferred batch norm).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ferrite/nn/norm.h"

namespace ferrite::parallel::pipeline {

class DeferredNorms {
  struct Norm {
    nn::BatchNorm* layer;
    std::vector<Tensor> parts = {};  ///< a micro-batch's: mean, m2 and count
    Tensor mean = {}, var = {};      ///< the running statistics, while the layer has none
  };

 public:
  /// Of those in `layers`, the layers of a stage, that keep running statistics. The ones that are
  /// synchronised when a micro-batch comes are left as they are.
  explicit DeferredNorms(std::span<nn::Module* const> layers);
  DeferredNorms(const DeferredNorms&) = delete;
  DeferredNorms& operator=(const DeferredNorms&) = delete;

  /// While it lives the stage works on one micro-batch, whose statistics are remembered; not those
  /// of one that a checkpoint computes again.
  class MicroBatch {
   public:
    explicit MicroBatch(DeferredNorms& norms);
    ~MicroBatch();
    MicroBatch(const MicroBatch&) = delete;
    MicroBatch& operator=(const MicroBatch&) = delete;

   private:
    std::vector<Norm*> deferred_;  // those that this one has changed
  };

  /// Forgets what was remembered.
  void begin();
  /// Moves the running statistics.
  void commit();

 private:
  void commit(Norm& norm);

  std::vector<Norm> norms_;
};

}  // namespace ferrite::parallel::pipeline
