// Losses as modules: `CrossEntropyLoss criterion({.label_smoothing = 0.1}); criterion(x, y)`. The
// functions and their options are in ops/loss.h. Class weights are buffers, which move with the
// module.
#pragma once

#include "ferrite/nn/module.h"
#include "ferrite/ops/loss.h"

namespace ferrite::nn {

class CrossEntropyLoss : public Cloneable<CrossEntropyLoss> {
 public:
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {});
  using Module::forward;
  Tensor forward(const Tensor& input, const Tensor& target);

 private:
  CrossEntropyOptions options_;
};

class NLLLoss : public Cloneable<NLLLoss> {
 public:
  explicit NLLLoss(const NllLossOptions& options = {});
  using Module::forward;
  Tensor forward(const Tensor& input, const Tensor& target);

 private:
  NllLossOptions options_;
};

class BCEWithLogitsLoss : public Cloneable<BCEWithLogitsLoss> {
 public:
  explicit BCEWithLogitsLoss(const BceWithLogitsOptions& options = {});
  using Module::forward;
  Tensor forward(const Tensor& input, const Tensor& target);

 private:
  BceWithLogitsOptions options_;
};

class MSELoss : public Cloneable<MSELoss> {
 public:
  explicit MSELoss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  using Module::forward;
  Tensor forward(const Tensor& input, const Tensor& target);

 private:
  Reduction reduction_;
};

class L1Loss : public Cloneable<L1Loss> {
 public:
  explicit L1Loss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  using Module::forward;
  Tensor forward(const Tensor& input, const Tensor& target);

 private:
  Reduction reduction_;
};

class SmoothL1Loss : public Cloneable<SmoothL1Loss> {
 public:
  explicit SmoothL1Loss(const SmoothL1LossOptions& options = {}) : options_(options) {}
  using Module::forward;
  Tensor forward(const Tensor& input, const Tensor& target);

 private:
  SmoothL1LossOptions options_;
};

}  // namespace ferrite::nn
