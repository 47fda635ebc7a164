// Lion, Adagrad, NAdam and RAdam.
#include "ferrite/kernels/adaptive.h"

#include <vector>

#include "ferrite/kernels/cpu/optim_loops.h"

namespace ferrite::kernels::cpu {

using namespace steps;

namespace {

/// Updates all parameters by a rule (rules::Lion and others).
template <template <class> class Rule, class Args>
void step_by(const OptimBatch& batch, const char* op, const Args& args) {
  if (overflowed(batch)) return;
  count_steps(batch);
  dispatch_floating(batch.dtype, op, [&]<class T>() {
    using C = Compute<T>;
    const Rule<C> rule{args};
    const double momentum = momentum_of(batch, rule.first_beta());
    std::vector<typename Rule<C>::Factors> factors;
    for (const OptimTensor& t : batch.tensors) {
      T* const scalar = static_cast<T*>(t.scalar);
      rules::Now now{static_cast<double>(*t.step), *batch.lr, momentum,
                     scalar ? static_cast<double>(static_cast<C>(*scalar)) : 0};
      factors.push_back(rule.factors(now));
      if (scalar) *scalar = static_cast<T>(static_cast<C>(now.scalar));
    }
    const double factor = gradient_factor(batch, args.maximize);
    for_each_block(batch, [&](const OptimTensor& t, std::int64_t at, std::int64_t n) {
      const auto f = factors[static_cast<std::size_t>(&t - batch.tensors.data())];
      {
        Opened<T> param(t.param, at, n), one(t.state[0], at, n), two(t.state[1], at, n);
        C *p = param, *first = one, *second = two;
        Gradient<T> gradient(batch, t, at, n, p, factor, rule.gradient_decay());
        const C* g = gradient;
        if constexpr (Rule<C>::kStates == 1) {
          C none = 0;
#pragma GCC ivdep
          for (std::int64_t i = 0; i < n; ++i) rule(f, p[i], g[i], first[i], none);
        } else {
#pragma GCC ivdep
          for (std::int64_t i = 0; i < n; ++i) rule(f, p[i], g[i], first[i], second[i]);
        }
      }
      if (t.copy) write_copy(batch, t, at, n);
    });
  });
}

}  // namespace

void lion(const OptimBatch& batch, const LionArgs& args) {
  step_by<rules::Lion>(batch, "lion", args);
}
void adagrad(const OptimBatch& batch, const AdagradArgs& args) {
  step_by<rules::Adagrad>(batch, "adagrad", args);
}
void nadam(const OptimBatch& batch, const NAdamArgs& args) {
  step_by<rules::NAdam>(batch, "nadam", args);
}
void radam(const OptimBatch& batch, const RAdamArgs& args) {
  step_by<rules::RAdam>(batch, "radam", args);
}

}  // namespace ferrite::kernels::cpu
