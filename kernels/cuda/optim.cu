// SGD, Adam and RMSprop.
#include "ferrite/kernels/cuda/optim.cuh"
#include "ferrite/kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda {

namespace {

using namespace steps;

struct StepFactors {
  double lr;
  double momentum;    ///< or beta1
  double step_size;   ///< lr / (1 - beta1^step)
  double correction;  ///< 1 / sqrt(1 - beta2^step)
  double first;       ///< whether it is the first step
};

/// `momentum` is read on the device where `momentum_at` is not null.
__global__ void __launch_bounds__(kThreads)
    count_steps(StepCounters counters, double momentum, const double* momentum_at, double beta2,
                const double* lr, const float* found_inf, StepFactors* factors) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= counters.count || (found_inf && *found_inf != 0)) return;
  const std::int64_t step = ++*counters.entries[i].step;
  const auto exponent = static_cast<double>(step);
  if (momentum_at) momentum = *momentum_at;
  factors[i] = {*lr, momentum, *lr / (1 - pow(momentum, exponent)),
                1 / sqrt(1 - pow(beta2, exponent)), step == 1 ? 1.0 : 0.0};
}

// ---- Rules, which compute in type C

template <class C>
struct SgdRule : Pass<StepFactors> {
  C take;
  bool has_buffer, nesterov;

  __device__ __forceinline__ void operator()(const StepFactors& f, C& p, C g,
                                             C (&state)[kStates]) const {
    if (has_buffer) {
      const auto momentum = static_cast<C>(f.momentum);
      const C buffer = f.first != 0 ? g : momentum * state[0] + take * g;
      state[0] = buffer;
      g = nesterov ? g + momentum * buffer : buffer;
    }
    p -= static_cast<C>(f.lr) * g;
  }
};

template <class C>
struct AdamRule : Pass<StepFactors> {
  C beta2, take2, eps;
  double decay;  ///< decoupled from the gradient; 0: none
  bool amsgrad;

  __device__ __forceinline__ void operator()(const StepFactors& f, C& p, C g,
                                             C (&state)[kStates]) const {
    if (decay != 0) p *= static_cast<C>(1 - f.lr * decay);
    state[0] = static_cast<C>(f.momentum) * state[0] + static_cast<C>(1 - f.momentum) * g;
    state[1] = beta2 * state[1] + take2 * g * g;
    C divisor = state[1];
    if (amsgrad) {
      if (!(divisor > state[2] || divisor != divisor)) divisor = state[2];
      state[2] = divisor;
    }
    p -= static_cast<C>(f.step_size) * state[0] /
         (sqrt(divisor) * static_cast<C>(f.correction) + eps);
  }
};

template <class C>
struct RmspropRule : Pass<StepFactors> {
  C alpha, take, eps;
  bool has_buffer, centered;

  __device__ __forceinline__ void operator()(const StepFactors& f, C& p, C g,
                                             C (&state)[kStates]) const {
    state[0] = alpha * state[0] + take * g * g;
    C square = state[0];
    if (centered) {
      state[2] = alpha * state[2] + take * g;
      square -= state[2] * state[2];
    }
    g /= sqrt(square) + eps;
    if (has_buffer) g = state[1] = static_cast<C>(f.momentum) * state[1] + g;
    p -= static_cast<C>(f.lr) * g;
  }
};

/// Increments the step counts, then updates. `momentum` may be beta1; `decay` is added to the
/// gradient.
template <class T, class G, class Rule>
void run(const Stream& stream, const char* name, const OptimBatch& batch, double momentum,
         double beta2, double decay, bool maximize, const Rule& rule) {
  if (batch.tensors.empty()) return;
  const Workspace workspace(stream, batch.tensors.size() * sizeof(StepFactors));
  auto* const factors = workspace.as<StepFactors>();
  for_each_counters(batch, [&](const StepCounters& counters, std::size_t first) {
    launch({"count_steps", stream, blocks_for(counters.count, kThreads), kThreads}, count_steps,
           counters, momentum, batch.momentum, beta2, batch.lr, batch.found_inf, factors + first);
  });
  for_each_update<T, G>(stream, name, batch, factors, decay, maximize, rule);
}

}  // namespace

void sgd(const Stream& stream, const OptimBatch& batch, const SgdArgs& args) {
  dispatch(batch, "sgd", [&]<class T, class G>() {
    using C = Compute<T>;
    run<T, G>(
        stream, "sgd", batch, args.momentum, 0, args.weight_decay, args.maximize,
        SgdRule<C>{{}, static_cast<C>(1 - args.dampening), args.momentum != 0, args.nesterov});
  });
}

void adam(const Stream& stream, const OptimBatch& batch, const AdamArgs& args) {
  dispatch(batch, "adam", [&]<class T, class G>() {
    using C = Compute<T>;
    run<T, G>(stream, "adam", batch, args.beta1, args.beta2, args.decoupled ? 0 : args.weight_decay,
              args.maximize,
              AdamRule<C>{{},
                          static_cast<C>(args.beta2),
                          static_cast<C>(1 - args.beta2),
                          static_cast<C>(args.eps),
                          args.decoupled ? args.weight_decay : 0,
                          args.amsgrad});
  });
}

void rmsprop(const Stream& stream, const OptimBatch& batch, const RmspropArgs& args) {
  dispatch(batch, "rmsprop", [&]<class T, class G>() {
    using C = Compute<T>;
    run<T, G>(stream, "rmsprop", batch, args.momentum, 0, args.weight_decay, args.maximize,
              RmspropRule<C>{{},
                             static_cast<C>(args.alpha),
                             static_cast<C>(1 - args.alpha),
                             static_cast<C>(args.eps),
                             args.momentum != 0,
                             args.centered});
  });
}

}  // namespace ferrite::kernels::cuda
