#include "ferrite/kernels/optim.h"

#include <algorithm>
#include <cmath>

#include "ferrite/kernels/cpu/optim_loops.h"

namespace ferrite::kernels::cpu {

using namespace steps;

void sgd(const OptimBatch& batch, const SgdArgs& args) {
  dispatch_floating(batch.dtype, "sgd", [&]<class T>() {
    using C = Compute<T>;
    const double factor = gradient_factor(batch, args.maximize);
    const MomentumRule<C> rule(batch, args);
    update(batch, [&](const OptimTensor& t, std::int64_t at, std::int64_t n) {
      Opened<T> param(t.param, at, n), state(t.state[0], at, n);
      Gradient<T> gradient(batch, t, at, n, param, factor, args.weight_decay);
      rule(*t.step == 1, n, param, gradient, state);
    });
  });
}

void adam(const OptimBatch& batch, const AdamArgs& args) {
  dispatch_floating(batch.dtype, "adam", [&]<class T>() {
    using C = Compute<T>;
    const double factor = gradient_factor(batch, args.maximize), lr = *batch.lr;
    const double momentum = momentum_of(batch, args.beta1);
    const C beta1 = static_cast<C>(momentum), take1 = static_cast<C>(1 - momentum),
            beta2 = static_cast<C>(args.beta2), take2 = static_cast<C>(1 - args.beta2),
            eps = static_cast<C>(args.eps);
    struct Factors {
      std::int64_t step;
      C step_size, correction;
    };
    const auto factors_at = [&](std::int64_t step) {
      const auto power = static_cast<double>(step);
      return Factors{step, static_cast<C>(lr / (1 - std::pow(momentum, power))),
                     static_cast<C>(1 / std::sqrt(1 - std::pow(args.beta2, power)))};
    };
    // The factors of most tensors, computed once: they take longer than the update of many tensors.
    const Factors usual = factors_at(batch.tensors.empty() ? 1 : *batch.tensors[0].step + 1);
    update(batch, [&](const OptimTensor& t, std::int64_t at, std::int64_t n) {
      const Factors factors = *t.step == usual.step ? usual : factors_at(*t.step);
      const C step_size = factors.step_size, correction = factors.correction;
      Opened<T> param(t.param, at, n), first(t.state[0], at, n), second(t.state[1], at, n),
          maximum(t.state[2], at, n);
      C *p = param, *m = first, *v = second, *divisor = v;
      Gradient<T> gradient(batch, t, at, n, p, factor, args.decoupled ? 0 : args.weight_decay);
      const C* g = gradient;
      if (args.decoupled && args.weight_decay != 0) {
        const C keep = static_cast<C>(1 - lr * args.weight_decay);
        for (std::int64_t i = 0; i < n; ++i) p[i] *= keep;
      }
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) {
        m[i] = beta1 * m[i] + take1 * g[i];
        v[i] = beta2 * v[i] + take2 * g[i] * g[i];
      }
      if (C* largest = maximum) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i)
          largest[i] = v[i] > largest[i] || v[i] != v[i] ? v[i] : largest[i];
        divisor = largest;
      }
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i)
        p[i] -= step_size * m[i] / (std::sqrt(divisor[i]) * correction + eps);
    });
  });
}

void rmsprop(const OptimBatch& batch, const RmspropArgs& args) {
  dispatch_floating(batch.dtype, "rmsprop", [&]<class T>() {
    using C = Compute<T>;
    const double factor = gradient_factor(batch, args.maximize);
    const C lr = static_cast<C>(*batch.lr), alpha = static_cast<C>(args.alpha),
            take = static_cast<C>(1 - args.alpha), eps = static_cast<C>(args.eps),
            momentum = static_cast<C>(momentum_of(batch, args.momentum));
    update(batch, [&](const OptimTensor& t, std::int64_t at, std::int64_t n) {
      Opened<T> param(t.param, at, n), square(t.state[0], at, n), momenta(t.state[1], at, n),
          mean(t.state[2], at, n);
      C *p = param, *s = square, *buffer = momenta, *average = mean;
      Gradient<T> gradient(batch, t, at, n, p, factor, args.weight_decay);
      C* g = gradient;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) s[i] = alpha * s[i] + take * g[i] * g[i];
      if (average) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) {
          average[i] = alpha * average[i] + take * g[i];
          g[i] /= std::sqrt(s[i] - average[i] * average[i]) + eps;
        }
      } else {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) g[i] /= std::sqrt(s[i]) + eps;
      }
      if (buffer) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) g[i] = buffer[i] = momentum * buffer[i] + g[i];
      }
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) p[i] -= lr * g[i];
    });
  });
}

}  // namespace ferrite::kernels::cpu
