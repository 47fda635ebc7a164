// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), as torch.optim has them.
#pragma once

#include "ferrite/optim/fused_optimizer.h"

namespace ferrite::optim {

/// Adam's weight decay is added to the gradient (L2); AdamW's is decoupled: a step takes
/// lr * weight_decay of the parameter itself.
template <bool kDecoupled>
struct AdamOptionsOf {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = kDecoupled ? 1e-2 : 0;
  bool amsgrad = false;  ///< divides by the largest second moment so far (Reddi et al. 2018)
  bool maximize = false;

  static constexpr const char* kName = kDecoupled ? "AdamW" : "Adam";
  Fields fields();
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;

template <bool kDecoupled>
class AdamOf final : public FusedOptimizer<AdamOptionsOf<kDecoupled>> {
 public:
  using FusedOptimizer<AdamOptionsOf<kDecoupled>>::FusedOptimizer;

 private:
  using Options = AdamOptionsOf<kDecoupled>;
  StateNames state_names(const Options& o) const override;
  void launch(const Stream& stream, kernels::OptimBatch batch, const Options& o) const override;
};
using Adam = AdamOf<false>;
using AdamW = AdamOf<true>;

}  // namespace ferrite::optim
