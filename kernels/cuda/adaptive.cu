// Lion, Adagrad, NAdam and RAdam.
#include "ferrite/kernels/adaptive.h"
#include "ferrite/kernels/cuda/optim.cuh"
#include "ferrite/kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda {

namespace {

using namespace steps;

/// `momentum` is read on the device where `momentum_at` is not null.
template <class T, class Rule>
__global__ void __launch_bounds__(kThreads)
    prepare_step(StepCounters counters, Rule rule, double momentum, const double* momentum_at,
                 const double* lr, const float* found_inf, typename Rule::Factors* factors) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= counters.count || (found_inf && *found_inf != 0)) return;
  const StepCounter& counter = counters.entries[i];
  T* const scalar = static_cast<T*>(counter.scalar);
  const std::int64_t step = ++*counter.step;
  rules::Now now{static_cast<double>(step), *lr, momentum_at ? *momentum_at : momentum,
                 scalar ? static_cast<double>(static_cast<Compute<T>>(*scalar)) : 0};
  factors[i] = rule.factors(now);
  if (scalar) *scalar = static_cast<T>(static_cast<Compute<T>>(now.scalar));
}

template <class Rule, class C>
struct RulePass : Pass<typename Rule::Factors> {
  Rule rule;

  __device__ __forceinline__ void operator()(const typename Rule::Factors& f, C& p, C g,
                                             C (&state)[kStates]) const {
    rule(f, p, g, state[0], state[1]);
  }
};

template <template <class> class Rule, class Args>
void step_by(const Stream& stream, const char* op, const OptimBatch& batch, const Args& args) {
  if (batch.tensors.empty()) return;
  dispatch(batch, op, [&]<class T, class G>() {
    using C = Compute<T>;
    const Rule<C> rule{args};
    using Factors = typename Rule<C>::Factors;
    const Workspace workspace(stream, batch.tensors.size() * sizeof(Factors));
    auto* const factors = workspace.as<Factors>();
    for_each_counters(batch, [&](const StepCounters& counters, std::size_t first) {
      launch({"count_steps", stream, blocks_for(counters.count, kThreads), kThreads},
             prepare_step<T, Rule<C>>, counters, rule, rule.first_beta(), batch.momentum, batch.lr,
             batch.found_inf, factors + first);
    });
    for_each_update<T, G>(stream, op, batch, factors, rule.gradient_decay(), args.maximize,
                          RulePass<Rule<C>, C>{{}, rule});
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
