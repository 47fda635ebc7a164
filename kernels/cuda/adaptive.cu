// Lion, Adagrad, NAdam and RAdam.
#include "ferrite/kernels/adaptive.h"
#include "ferrite/kernels/cuda/optim.cuh"

namespace ferrite::kernels::cuda {

namespace {

using namespace steps;

template <class Rule, class C>
struct RulePass : Pass {
  static constexpr int kStates = Rule::kStates;
  static constexpr bool kHasScalar = std::is_same_v<Rule, rules::NAdam<C>>;
  using Factors = typename Rule::Factors;
  Rule rule;

  __device__ __forceinline__ Factors factors(Now& now) const { return rule.factors(now); }
  __device__ __forceinline__ void operator()(const Factors& f, C& p, C g,
                                             C (&state)[kStates]) const {
    rule(f, p, g, state[0], state[kStates - 1]);
  }
};

template <template <class> class Rule, class Args>
void step_by(const Stream& stream, const char* op, const OptimBatch& batch, const Args& args) {
  dispatch(batch, op, [&]<class T, class G>() {
    using C = Compute<T>;
    const Rule<C> rule{args};
    for_each_update<T, G>(stream, op, batch, rule.first_beta(), rule.gradient_decay(),
                          args.maximize, RulePass<Rule<C>, C>{{}, rule});
  });
}

}  // namespace

void lion(const Stream& stream, const OptimBatch& batch, const LionArgs& args) {
  step_by<rules::Lion>(stream, "lion", batch, args);
}
void adagrad(const Stream& stream, const OptimBatch& batch, const AdagradArgs& args) {
  step_by<rules::Adagrad>(stream, "adagrad", batch, args);
}
void nadam(const Stream& stream, const OptimBatch& batch, const NAdamArgs& args) {
  step_by<rules::NAdam>(stream, "nadam", batch, args);
}
void radam(const Stream& stream, const OptimBatch& batch, const RAdamArgs& args) {
  step_by<rules::RAdam>(stream, "radam", batch, args);
}

}  // namespace ferrite::kernels::cuda
