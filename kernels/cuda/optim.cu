// SGD, Adam and RMSprop.
#include "ferrite/kernels/cuda/optim.cuh"

namespace ferrite::kernels::cuda {

namespace {

using namespace steps;

// ---- Rules, which compute in type C

template <class C>
struct MomentumPass : Pass {
  struct Factors {
    C lr, momentum;
    bool first;  ///< whether it is the first step
  };
  __device__ __forceinline__ Factors factors(const Now& now) const {
    return {static_cast<C>(now.lr), static_cast<C>(now.momentum), now.step == 1};
  }
};

template <class C>
struct SgdRule : MomentumPass<C> {
  static constexpr int kStates = 1;
  C take;
  bool has_buffer, nesterov;

  __device__ __forceinline__ void operator()(const typename MomentumPass<C>::Factors& f, C& p, C g,
                                             C (&state)[kStates]) const {
    if (has_buffer) {
      const C buffer = f.first ? g : f.momentum * state[0] + take * g;
      state[0] = buffer;
      g = nesterov ? g + f.momentum * buffer : buffer;
    }
    p -= f.lr * g;
  }
};

template <class C>
struct AdamRule : Pass {
  static constexpr int kStates = 3;
  struct Factors {
    C beta1, take1;
    C keep;        ///< 1 - lr * decay
    C step_size;   ///< lr / (1 - beta1^step)
    C correction;  ///< 1 / sqrt(1 - beta2^step)
  };
  double beta2;
  C eps;
  double decay;  ///< decoupled from the gradient; 0: none
  bool amsgrad;

  __device__ __forceinline__ Factors factors(const Now& now) const {
    return {static_cast<C>(now.momentum), static_cast<C>(1 - now.momentum),
            static_cast<C>(1 - now.lr * decay),
            static_cast<C>(now.lr / (1 - power(now.momentum, now.step))),
            static_cast<C>(1 / sqrt(1 - power(beta2, now.step)))};
  }
  __device__ __forceinline__ void operator()(const Factors& f, C& p, C g,
                                             C (&state)[kStates]) const {
    if (decay != 0) p *= f.keep;
    state[0] = f.beta1 * state[0] + f.take1 * g;
    state[1] = static_cast<C>(beta2) * state[1] + static_cast<C>(1 - beta2) * g * g;
    C divisor = state[1];
    if (amsgrad) {
      if (!(divisor > state[2] || divisor != divisor)) divisor = state[2];
      state[2] = divisor;
    }
    p -= f.step_size * state[0] / (sqrt(divisor) * f.correction + eps);
  }
};

template <class C>
struct RmspropRule : MomentumPass<C> {
  static constexpr int kStates = 3;
  C alpha, take, eps;
  bool has_buffer, centered;

  __device__ __forceinline__ void operator()(const typename MomentumPass<C>::Factors& f, C& p, C g,
                                             C (&state)[kStates]) const {
    state[0] = alpha * state[0] + take * g * g;
    C square = state[0];
    if (centered) {
      state[2] = alpha * state[2] + take * g;
      square -= state[2] * state[2];
    }
    g /= sqrt(square) + eps;
    if (has_buffer) g = state[1] = f.momentum * state[1] + g;
    p -= f.lr * g;
  }
};

}  // namespace

void sgd(const Stream& stream, const OptimBatch& batch, const SgdArgs& args) {
  dispatch(batch, "sgd", [&]<class T, class G>() {
    using C = Compute<T>;
    const SgdRule<C> rule{
        {}, static_cast<C>(1 - args.dampening), args.momentum != 0, args.nesterov};
    for_each_update<T, G>(stream, "sgd", batch, args.momentum, args.weight_decay, args.maximize,
                          rule);
  });
}

void adam(const Stream& stream, const OptimBatch& batch, const AdamArgs& args) {
  dispatch(batch, "adam", [&]<class T, class G>() {
    using C = Compute<T>;
    const AdamRule<C> rule{{},
                           args.beta2,
                           static_cast<C>(args.eps),
                           args.decoupled ? args.weight_decay : 0,
                           args.amsgrad};
    for_each_update<T, G>(stream, "adam", batch, args.beta1, args.decoupled ? 0 : args.weight_decay,
                          args.maximize, rule);
  });
}

void rmsprop(const Stream& stream, const OptimBatch& batch, const RmspropArgs& args) {
  dispatch(batch, "rmsprop", [&]<class T, class G>() {
    using C = Compute<T>;
    const RmspropRule<C> rule{{},
                              static_cast<C>(args.alpha),
                              static_cast<C>(1 - args.alpha),
                              static_cast<C>(args.eps),
                              args.momentum != 0,
                              args.centered};
    for_each_update<T, G>(stream, "rmsprop", batch, args.momentum, args.weight_decay, args.maximize,
                          rule);
  });
}

}  // namespace ferrite::kernels::cuda
