// Batch norms whose running statistics are updated once per mini-batch, with all its micro-batches
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
    std::vector<Tensor> parts = {};  ///< per micro-batch: mean, m2 and count
    Tensor mean = {}, var = {};      ///< the running statistics, while the layer has none
  };

 public:
  /// Handles those of `layers`, the layers of a stage, that keep running statistics. Norms that are
  /// synchronised when a micro-batch arrives are not changed.
  explicit DeferredNorms(std::span<nn::Module* const> layers);
  DeferredNorms(const DeferredNorms&) = delete;
  DeferredNorms& operator=(const DeferredNorms&) = delete;

  /// While it lives the stage works on one micro-batch, whose statistics are recorded, unless a
  /// checkpoint recomputes it.
  class MicroBatch {
   public:
    explicit MicroBatch(DeferredNorms& norms);
    ~MicroBatch();
    MicroBatch(const MicroBatch&) = delete;
    MicroBatch& operator=(const MicroBatch&) = delete;

   private:
    std::vector<Norm*> deferred_;  // the norms changed by this object
  };

  /// Discards the recorded statistics.
  void begin();
  /// Updates the running statistics.
  void commit();

 private:
  void commit(Norm& norm);

  std::vector<Norm> norms_;
};

}  // namespace ferrite::parallel::pipeline
