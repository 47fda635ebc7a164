#include "ferrite/optim/adam.h"

namespace ferrite::optim {

template <bool kDecoupled>
Fields AdamOptionsOf<kDecoupled>::fields() {
  return {{"lr", &lr, kNonNegative},
          {"betas.0", &betas.first, kBelowOne},
          {"betas.1", &betas.second, kBelowOne},
          {"eps", &eps, kNonNegative},
          {"weight_decay", &weight_decay, kNonNegative},
          {"amsgrad", &amsgrad},
          {"maximize", &maximize}};
}

template <bool kDecoupled>
StateNames AdamOf<kDecoupled>::state_names(const Options& o) const {
  return {"exp_avg", "exp_avg_sq", o.amsgrad ? "max_exp_avg_sq" : nullptr};
}

template <bool kDecoupled>
void AdamOf<kDecoupled>::launch(const Stream& stream, kernels::OptimBatch batch,
                                const Options& o) const {
  kernels::adam(stream, batch,
                {.beta1 = o.betas.first,
                 .beta2 = o.betas.second,
                 .eps = o.eps,
                 .weight_decay = o.weight_decay,
                 .decoupled = kDecoupled,
                 .amsgrad = o.amsgrad,
                 .maximize = o.maximize});
}

template struct AdamOptionsOf<false>;
template struct AdamOptionsOf<true>;
template class AdamOf<false>;
template class AdamOf<true>;

}  // namespace ferrite::optim
