// LARS and LAMB: steps whose size depends on the norms of each parameter.
#include "ferrite/kernels/layerwise.h"

#include <cmath>

#include "ferrite/kernels/cpu/optim_loops.h"
#include "ferrite/kernels/cpu/pieces.h"

namespace ferrite::kernels::cpu {

using namespace steps;

namespace {

FlatTensors parameters_of(const OptimBatch& batch) {
  FlatTensors tensors{.arrays = {}, .dtype = batch.dtype};
  for (const OptimTensor& t : batch.tensors) tensors.arrays.push_back({t.param, t.numel});
  return tensors;
}
FlatTensors gradients_of(const OptimBatch& batch) {
  FlatTensors tensors{.arrays = {}, .dtype = batch.grad_dtype.value_or(batch.dtype)};
  for (const OptimTensor& t : batch.tensors)
    tensors.arrays.push_back({const_cast<void*>(t.grad), t.numel});
  return tensors;
}

std::vector<double> norms_of(const FlatTensors& tensors) {
  std::vector<double> result(tensors.arrays.size());
  View each;
  each.data = result.data();
  cpu::norms(tensors, 2, each, {});
  return result;
}

/// The number of a tensor of the batch.
std::size_t number_of(const OptimBatch& batch, const OptimTensor& t) {
  return static_cast<std::size_t>(&t - batch.tensors.data());
}

/// What LAMB's update of a parameter is made of.
struct LambFactors {
  double unbias1 = 1, unbias2 = 1, decay = 0;
  double step_size = 0;  ///< lr * trust ratio
};

std::vector<LambFactors> lamb_factors(const OptimBatch& batch, const LambArgs& args) {
  std::vector<LambFactors> factors(batch.tensors.size());
  const double beta1 = momentum_of(batch, args.beta1);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const auto step = static_cast<double>(*batch.tensors[i].step);
    if (args.bias_correction) {
      factors[i].unbias1 = 1 / (1 - std::pow(beta1, step));
      factors[i].unbias2 = 1 / std::sqrt(1 - std::pow(args.beta2, step));
    }
    if (batch.tensors[i].adapts) factors[i].decay = args.weight_decay;
  }
  return factors;
}

template <class C>
void lamb_update(const LambFactors& f, C eps, const C* p, const C* m, const C* v, std::int64_t n,
                 C* out) {
  const C unbias1 = static_cast<C>(f.unbias1), unbias2 = static_cast<C>(f.unbias2),
          decay = static_cast<C>(f.decay);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = unbias1 * m[i] / (std::sqrt(v[i]) * unbias2 + eps) + decay * p[i];
}

template <class T>
void lamb_moments(const OptimBatch& batch, const LambArgs& args) {
  using C = Compute<T>;
  const double factor = gradient_factor(batch, args.maximize),
               momentum = momentum_of(batch, args.beta1);
  const C beta1 = static_cast<C>(momentum), take1 = static_cast<C>(1 - momentum),
          beta2 = static_cast<C>(args.beta2), take2 = static_cast<C>(1 - args.beta2);
  for_each_block(batch, [&](const OptimTensor& t, std::int64_t at, std::int64_t n) {
    Opened<T> first(t.state[0], at, n), second(t.state[1], at, n);
    C *m = first, *v = second;
    Gradient<T> gradient(batch, t, at, n, nullptr, factor, 0);
    const C* g = gradient;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      m[i] = beta1 * m[i] + take1 * g[i];
      v[i] = beta2 * v[i] + take2 * g[i] * g[i];
    }
  });
}

/// Sums of squares, of parameters and updates, piece by piece.
struct Squares {
  double weight = 0, update = 0;
};

template <class T>
void lamb_trust(const OptimBatch& batch, const LambArgs& args, std::vector<LambFactors>& factors) {
  using C = Compute<T>;
  const std::vector<Piece> pieces = cut(parameters_of(batch));
  std::vector<Squares> partial(pieces.size()), sums(factors.size());
  for_each_piece(pieces, [&](std::size_t number, const Piece& piece) {
    const OptimTensor& t = batch.tensors[piece.array];
    Squares sum;
    C update[kBlock];
    for (std::int64_t done = 0; done < piece.count; done += kBlock) {
      const std::int64_t at = piece.begin + done, n = std::min(kBlock, piece.count - done);
      Opened<T> param(t.param, at, n), first(t.state[0], at, n), second(t.state[1], at, n);
      const C* p = param;
      lamb_update<C>(factors[piece.array], static_cast<C>(args.eps), p, first, second, n, update);
      for (std::int64_t i = 0; i < n; ++i) {
        sum.weight += static_cast<double>(p[i]) * static_cast<double>(p[i]);
        sum.update += static_cast<double>(update[i]) * static_cast<double>(update[i]);
      }
    }
    partial[number] = sum;
  });
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    sums[pieces[i].array].weight += partial[i].weight;
    sums[pieces[i].array].update += partial[i].update;
  }
  for (std::size_t i = 0; i < sums.size(); ++i)
    factors[i].step_size =
        *batch.lr * (batch.tensors[i].adapts
                         ? trust_ratio(args, std::sqrt(sums[i].weight), std::sqrt(sums[i].update))
                         : 1);
}

}  // namespace

void lars(const OptimBatch& batch, const LarsArgs& args) {
  if (overflowed(batch)) return;
  const std::vector<double> weights = norms_of(parameters_of(batch)),
                            grads = norms_of(gradients_of(batch));
  dispatch_floating(batch.dtype, "lars", [&]<class T>() {
    using C = Compute<T>;
    const double factor = gradient_factor(batch, args.maximize);
    const MomentumRule<C> rule(batch, args);
    update(batch, [&](const OptimTensor& t, std::int64_t at, std::int64_t n) {
      const std::size_t number = number_of(batch, t);
      const C trust = t.adapts
                          ? static_cast<C>(trust_ratio(args, weights[number],
                                                       std::abs(factor) * grads[number], *batch.lr))
                          : C(1);
      Opened<T> param(t.param, at, n), state(t.state[0], at, n);
      Gradient<T> gradient(batch, t, at, n, param, factor, t.adapts ? args.weight_decay : 0);
      C* g = gradient;
      for (std::int64_t i = 0; i < n; ++i) g[i] *= trust;
      rule(*t.step == 1, n, param, g, state);
    });
  });
}

void lamb(const OptimBatch& batch, const LambArgs& args) {
  if (overflowed(batch)) return;
  count_steps(batch);
  std::vector<LambFactors> factors = lamb_factors(batch, args);
  dispatch_floating(batch.dtype, "lamb", [&]<class T>() {
    using C = Compute<T>;
    lamb_moments<T>(batch, args);
    lamb_trust<T>(batch, args, factors);
    for_each_block(batch, [&](const OptimTensor& t, std::int64_t at, std::int64_t n) {
      const LambFactors& f = factors[number_of(batch, t)];
      const C step_size = static_cast<C>(f.step_size);
      C update[kBlock];
      {
        Opened<T> param(t.param, at, n), first(t.state[0], at, n), second(t.state[1], at, n);
        C* p = param;
        lamb_update<C>(f, static_cast<C>(args.eps), p, first, second, n, update);
        for (std::int64_t i = 0; i < n; ++i) p[i] -= step_size * update[i];
      }
      if (t.copy) write_copy(batch, t, at, n);
    });
  });
}

}  // namespace ferrite::kernels::cpu
