// Optimizer steps over many parameters at once (after Apex's multi_tensor_apply): one small kernel
// counts the steps and works out what depends on them, then each block of the second updates a
// chunk of one parameter in a single pass over its arrays.
#include "core/dtype.h"
#include "kernels/cuda/multi_tensor.cuh"
#include "kernels/cuda/optim.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 4096;  // elements a block
constexpr int kStates = 3;

/// What a parameter's update needs beside its elements.
struct StepFactors {
  double lr;
  double step_size;   ///< lr / (1 - beta1^step)
  double correction;  ///< 1 / sqrt(1 - beta2^step)
  double first;       ///< whether it is the first step
};

struct StepCounter {
  std::int64_t* step;
  std::int64_t numel;  ///< 1: one chunk each
};
using StepCounters = ArrayListFor<StepCounter>;

__global__ void __launch_bounds__(kThreads)
    count_steps(StepCounters counters, double beta1, double beta2, const double* lr,
                const float* found_inf, StepFactors* factors) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= counters.count || (found_inf && *found_inf != 0)) return;
  const std::int64_t step = ++*counters.entries[i].step;
  const auto exponent = static_cast<double>(step);
  factors[i] = {*lr, *lr / (1 - pow(beta1, exponent)), 1 / sqrt(1 - pow(beta2, exponent)),
                step == 1 ? 1.0 : 0.0};
}

// ---- Rules: one element's update, with numbers of type C. `state` holds those of the element's
// states that are in use; `g` is its gradient, unscaled and with weight decay.

template <class C>
struct SgdRule {
  C momentum, take;
  bool has_buffer, nesterov;

  __device__ __forceinline__ void operator()(const StepFactors& f, C& p, C g,
                                             C (&state)[kStates]) const {
    if (has_buffer) {
      const C buffer = f.first != 0 ? g : momentum * state[0] + take * g;
      state[0] = buffer;
      g = nesterov ? g + momentum * buffer : buffer;
    }
    p -= static_cast<C>(f.lr) * g;
  }
};

template <class C>
struct AdamRule {
  C beta1, take1, beta2, take2, eps;
  double decay;  ///< decoupled from the gradient; 0: none
  bool amsgrad;

  __device__ __forceinline__ void operator()(const StepFactors& f, C& p, C g,
                                             C (&state)[kStates]) const {
    if (decay != 0) p *= static_cast<C>(1 - f.lr * decay);
    state[0] = beta1 * state[0] + take1 * g;
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
struct RmspropRule {
  C alpha, take, eps, momentum;
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
    if (has_buffer) g = state[1] = momentum * state[1] + g;
    p -= static_cast<C>(f.lr) * g;
  }
};

// ---- The pass over the arrays

struct Arrays {
  void* param;
  const void* grad;
  void* state[kStates];
  void* copy;
  std::int64_t numel;
};
using ArraysList = ArrayListFor<Arrays>;

/// What the update reads on the device, and how it makes of a gradient what the rule is given.
template <class C>
struct Control {
  const StepFactors* factors;
  const float* inv_scale;
  const float* found_inf;
  C decay;  ///< through the gradient; 0: none
  bool maximize;
  DType copy_dtype;
};

template <int V, class T>
__device__ __forceinline__ Pack<T, V> load_from(const void* array, std::int64_t at) {
  return load_pack<V>(static_cast<const T*>(array) + at);
}
template <int V, class T>
__device__ __forceinline__ void store_to(void* array, std::int64_t at, const Pack<T, V>& values) {
  store_pack<V>(static_cast<T*>(array) + at, values);
}
template <int V, class H>
__device__ __forceinline__ void store_rounded(void* array, std::int64_t at,
                                              const Pack<float, V>& values) {
  Pack<H, V> rounded;
#pragma unroll
  for (int i = 0; i < V; ++i) rounded.v[i] = values.v[i];
  store_to<V>(array, at, rounded);
}

/// Updates a chunk's elements [begin, end): U packs of V elements a thread at a time.
template <int V, int U, class T, class G, class Rule>
__device__ __forceinline__ void update_chunk(const Arrays& arrays,
                                             const Control<Compute<T>>& control, const Rule& rule,
                                             const StepFactors& factors, std::int64_t begin,
                                             std::int64_t end) {
  using C = Compute<T>;
  C scale = control.inv_scale ? static_cast<C>(*control.inv_scale) : C(1);
  if (control.maximize) scale = -scale;
  for (std::int64_t first = begin + threadIdx.x * V; first < end; first += kThreads * V * U) {
    Pack<T, V> param[U], state[U][kStates];
    Pack<G, V> grad[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const std::int64_t at = first + u * kThreads * V;
      if (at >= end) break;
      param[u] = load_from<V, T>(arrays.param, at);
      grad[u] = load_from<V, G>(arrays.grad, at);
#pragma unroll
      for (int k = 0; k < kStates; ++k)
        if (arrays.state[k]) state[u][k] = load_from<V, T>(arrays.state[k], at);
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const std::int64_t at = first + u * kThreads * V;
      if (at >= end) break;
#pragma unroll
      for (int i = 0; i < V; ++i) {
        C p = param[u].v[i], g = scale * static_cast<C>(grad[u].v[i]);
        C s[kStates] = {};
        if (control.decay != 0) g += control.decay * p;
#pragma unroll
        for (int k = 0; k < kStates; ++k)
          if (arrays.state[k]) s[k] = state[u][k].v[i];
        rule(factors, p, g, s);
        param[u].v[i] = static_cast<T>(p);
#pragma unroll
        for (int k = 0; k < kStates; ++k) state[u][k].v[i] = static_cast<T>(s[k]);
      }
      store_to<V>(arrays.param, at, param[u]);
#pragma unroll
      for (int k = 0; k < kStates; ++k)
        if (arrays.state[k]) store_to<V>(arrays.state[k], at, state[u][k]);
      if constexpr (std::is_same_v<T, float>) {
        if (arrays.copy && control.copy_dtype == kFloat16)
          store_rounded<V, Half>(arrays.copy, at, param[u]);
        else if (arrays.copy)
          store_rounded<V, BFloat16>(arrays.copy, at, param[u]);
      }
    }
  }
}

template <class T, class G, class Rule>
__global__ void __launch_bounds__(kThreads)
    update(ArraysList list, Control<Compute<T>> control, Rule rule) {
  if (control.found_inf && *control.found_inf != 0) return;
  const int number = list.array_of(blockIdx.x);
  const Arrays& arrays = list.entries[number];
  const StepFactors factors = control.factors[number];
  const std::int64_t begin = (blockIdx.x - list.first_block[number]) * kChunk;
  const std::int64_t end = begin + kChunk < arrays.numel ? begin + kChunk : arrays.numel;
  constexpr int kPack = pack_size<T, G>();
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(arrays.param) |
                        reinterpret_cast<std::uintptr_t>(arrays.grad) |
                        reinterpret_cast<std::uintptr_t>(arrays.copy);
#pragma unroll
  for (const void* state : arrays.state) bits |= reinterpret_cast<std::uintptr_t>(state);
  std::int64_t done = begin;
  if (bits % kPackBytes == 0) {
    done = end - end % kPack;
    update_chunk<kPack, kPack == 8 ? 1 : 2, T, G>(arrays, control, rule, factors, begin, done);
  }
  update_chunk<1, 4, T, G>(arrays, control, rule, factors, done, end);
}

/// Counts the steps, then updates. `decay` goes through the gradient.
template <class T, class G, class Rule>
void run(const Stream& stream, const char* name, const OptimBatch& batch, double beta1,
         double beta2, double decay, bool maximize, const Rule& rule) {
  const auto& tensors = batch.tensors;
  if (tensors.empty()) return;
  const Workspace factors(stream, tensors.size() * sizeof(StepFactors));
  for_each_list<StepCounter>(
      tensors.size(), 1,
      [&](std::size_t i) {
        return StepCounter{tensors[i].step, 1};
      },
      [&](const StepCounters& counters, std::size_t first) {
        launch({"count_steps", stream, blocks_for(counters.count, kThreads), kThreads}, count_steps,
               counters, beta1, beta2, batch.lr, batch.found_inf,
               factors.as<StepFactors>() + first);
      });
  Control<Compute<T>> control{factors.as<StepFactors>(),      batch.inv_scale, batch.found_inf,
                              static_cast<Compute<T>>(decay), maximize,        batch.copy_dtype};
  for_each_list<Arrays>(
      tensors.size(), kChunk,
      [&](std::size_t i) {
        const OptimTensor& t = tensors[i];
        return Arrays{t.param, t.grad, {t.state[0], t.state[1], t.state[2]}, t.copy, t.numel};
      },
      [&](const ArraysList& list, std::size_t first) {
        control.factors = factors.as<StepFactors>() + first;
        launch({name, stream, list.blocks, kThreads}, update<T, G, Rule>, list, control, rule);
      });
}

/// Calls body.operator()<T, G>() for the types of parameters and gradients.
template <class Body>
void dispatch(const OptimBatch& batch, const char* op, Body&& body) {
  dispatch_floating(batch.dtype, op, [&]<class T>() {
    if (batch.grad_dtype.value_or(batch.dtype) == batch.dtype)
      return body.template operator()<T, T>();
    if constexpr (std::is_same_v<T, float>)
      dispatch_types<Half, BFloat16>(*batch.grad_dtype, op,
                                     [&]<class G>() { body.template operator()<T, G>(); });
    else
      fail<DTypeError>(op, "does not work on {} parameters with {} gradients", name(batch.dtype),
                       name(*batch.grad_dtype));
  });
}

}  // namespace

void sgd(const Stream& stream, const OptimBatch& batch, const SgdArgs& args) {
  dispatch(batch, "sgd", [&]<class T, class G>() {
    using C = Compute<T>;
    run<T, G>(stream, "sgd", batch, 0, 0, args.weight_decay, args.maximize,
              SgdRule<C>{static_cast<C>(args.momentum), static_cast<C>(1 - args.dampening),
                         args.momentum != 0, args.nesterov});
  });
}

void adam(const Stream& stream, const OptimBatch& batch, const AdamArgs& args) {
  dispatch(batch, "adam", [&]<class T, class G>() {
    using C = Compute<T>;
    run<T, G>(stream, "adam", batch, args.beta1, args.beta2, args.decoupled ? 0 : args.weight_decay,
              args.maximize,
              AdamRule<C>{static_cast<C>(args.beta1), static_cast<C>(1 - args.beta1),
                          static_cast<C>(args.beta2), static_cast<C>(1 - args.beta2),
                          static_cast<C>(args.eps), args.decoupled ? args.weight_decay : 0,
                          args.amsgrad});
  });
}

void rmsprop(const Stream& stream, const OptimBatch& batch, const RmspropArgs& args) {
  dispatch(batch, "rmsprop", [&]<class T, class G>() {
    using C = Compute<T>;
    run<T, G>(stream, "rmsprop", batch, 0, 0, args.weight_decay, args.maximize,
              RmspropRule<C>{static_cast<C>(args.alpha), static_cast<C>(1 - args.alpha),
                             static_cast<C>(args.eps), static_cast<C>(args.momentum),
                             args.momentum != 0, args.centered});
  });
}

}  // namespace ferrite::kernels::cuda
