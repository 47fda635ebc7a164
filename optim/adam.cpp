#include "ferrite/optim/adam.h"

namespace ferrite::optim {

namespace {
template <class Options>
constexpr bool kDecoupled = std::is_same_v<Options, AdamWOptions>;
template <class Options>
constexpr const char* kName = kDecoupled<Options> ? "AdamW" : "Adam";
}  // namespace

template <class Options>
std::vector<Optimizer::Field> AdamBase<Options>::fields(std::size_t group) {
  Options& o = this->options(group);
  return {{"lr", &o.lr},
          {"betas.0", &o.betas.first},
          {"betas.1", &o.betas.second},
          {"eps", &o.eps},
          {"weight_decay", &o.weight_decay},
          {"amsgrad", &o.amsgrad},
          {"maximize", &o.maximize}};
}

template <class Options>
void AdamBase<Options>::check_options(std::size_t group) const {
  const Options& o = this->options(group);
  const char* name = kName<Options>;
  FERRITE_CHECK(o.lr >= 0, ValueError, name, "expected a learning rate of 0 or more, got {}", o.lr);
  FERRITE_CHECK(
      o.betas.first >= 0 && o.betas.first < 1 && o.betas.second >= 0 && o.betas.second < 1,
      ValueError, name, "expected betas in [0, 1), got {} and {}", o.betas.first, o.betas.second);
  FERRITE_CHECK(o.eps >= 0, ValueError, name, "expected an eps of 0 or more, got {}", o.eps);
  FERRITE_CHECK(o.weight_decay >= 0, ValueError, name,
                "expected a weight decay of 0 or more, got {}", o.weight_decay);
}

template <class Options>
std::array<bool, Optimizer::kStates> AdamBase<Options>::states_used(std::size_t group) const {
  return {true, true, this->options(group).amsgrad};
}

template <class Options>
void AdamBase<Options>::update(const Stream& stream, std::size_t group, kernels::OptimBatch batch) {
  const Options& o = this->options(group);
  kernels::adam(stream, std::move(batch),
                {.beta1 = o.betas.first,
                 .beta2 = o.betas.second,
                 .eps = o.eps,
                 .weight_decay = o.weight_decay,
                 .decoupled = kDecoupled<Options>,
                 .amsgrad = o.amsgrad,
                 .maximize = o.maximize});
}

template class AdamBase<AdamOptions>;
template class AdamBase<AdamWOptions>;

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options) : AdamBase("Adam") {
  add_groups({{std::move(parameters), options}});
}
Adam::Adam(const std::vector<Group>& groups) : AdamBase("Adam") { add_groups(groups); }

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options) : AdamBase("AdamW") {
  add_groups({{std::move(parameters), options}});
}
AdamW::AdamW(const std::vector<Group>& groups) : AdamBase("AdamW") { add_groups(groups); }

}  // namespace ferrite::optim
