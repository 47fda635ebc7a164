// Optimizer steps over many parameters at once (after Apex's multi_tensor_apply): a small kernel
// increments the step counts and computes the values that depend on them. In the next kernel, each
// block updates a chunk of one parameter in a single pass over its arrays, by a rule for one
// element.
#pragma once

#include <type_traits>

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/multi_tensor.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/optim.h"

namespace ferrite::kernels::cuda::steps {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 4096;  // elements per block
constexpr int kStates = 3;

/// Base of rules. A rule has a type `Factors`, the values per parameter that an update needs, and
/// `operator()(factors, p, g, state)`, which updates one element in the Compute type. `state` holds
/// the element's states in use; `g` is its gradient after unscaling and weight decay. If a rule has
/// `finish()`, all threads of a block call it at the end.
template <class F>
struct Pass {
  using Factors = F;
  static constexpr bool kReadsGrad = true, kWritesParam = true, kWritesState = true;
};

struct StepCounter {
  std::int64_t* step;
  std::int64_t numel;  ///< 1: one chunk each
  bool adapts;
  void* scalar;
};
using StepCounters = ArrayListFor<StepCounter>;

/// Calls launch(counters, index of the first) for each list of counters.
template <class Launch>
void for_each_counters(const OptimBatch& batch, Launch&& launch) {
  for_each_list<StepCounter>(
      batch.tensors.size(), 1,
      [&](std::size_t i) {
        const OptimTensor& t = batch.tensors[i];
        return StepCounter{t.step, 1, t.adapts, t.scalar};
      },
      launch);
}

struct Arrays {
  void* param;
  const void* grad;  // plus 1 if its type is that of `param`, though other gradients' is not
  void* state[kStates];
  void* copy;
  std::int64_t numel;
};
using ArraysList = ArrayListFor<Arrays>;

/// The values that the update reads on the device, and the transformation of a gradient before the
/// rule.
template <class C, class Factors>
struct Control {
  const Factors* factors;  ///< one per array
  const float* inv_scale;
  const float* found_inf;
  C decay;  ///< added to the gradient; 0: none
  bool maximize;
  DType copy_dtype;
};

template <class T, class Rule>
using ControlOf = Control<Compute<T>, typename Rule::Factors>;

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

/// Updates a chunk's elements [begin, end): U packs of V elements per thread at a time.
template <int V, int U, class T, class G, class Rule>
__device__ __forceinline__ void update_chunk(const Arrays& arrays,
                                             const ControlOf<T, Rule>& control, Rule& rule,
                                             const typename Rule::Factors& factors,
                                             std::int64_t begin, std::int64_t end) {
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
      if constexpr (Rule::kReadsGrad) grad[u] = load_from<V, G>(arrays.grad, at);
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
        C p = param[u].v[i], g = 0;
        C s[kStates] = {};
        if constexpr (Rule::kReadsGrad) {
          g = scale * static_cast<C>(grad[u].v[i]);
          if (control.decay != 0) g += control.decay * p;
        }
#pragma unroll
        for (int k = 0; k < kStates; ++k)
          if (arrays.state[k]) s[k] = state[u][k].v[i];
        rule(factors, p, g, s);
        param[u].v[i] = static_cast<T>(p);
#pragma unroll
        for (int k = 0; k < kStates; ++k) state[u][k].v[i] = static_cast<T>(s[k]);
      }
      if constexpr (Rule::kWritesState) {
#pragma unroll
        for (int k = 0; k < kStates; ++k)
          if (arrays.state[k]) store_to<V>(arrays.state[k], at, state[u][k]);
      }
      if constexpr (Rule::kWritesParam) store_to<V>(arrays.param, at, param[u]);
      if constexpr (Rule::kWritesParam && std::is_same_v<T, float>) {
        if (arrays.copy && control.copy_dtype == kFloat16)
          store_rounded<V, Half>(arrays.copy, at, param[u]);
        else if (arrays.copy)
          store_rounded<V, BFloat16>(arrays.copy, at, param[u]);
      }
    }
  }
}

/// Updates the elements [begin, end), packs of them where the arrays allow it.
template <class T, class G, class Rule>
__device__ __forceinline__ void update_some(const Arrays& arrays, const ControlOf<T, Rule>& control,
                                            Rule& rule, const typename Rule::Factors& factors,
                                            std::int64_t begin, std::int64_t end) {
  constexpr int kPack = useful_pack<T, G>();
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(arrays.param) |
                        reinterpret_cast<std::uintptr_t>(arrays.grad) |
                        reinterpret_cast<std::uintptr_t>(arrays.copy);
#pragma unroll
  for (const void* state : arrays.state) bits |= reinterpret_cast<std::uintptr_t>(state);
  std::int64_t done = begin;
  if constexpr (kPack > 1)
    if (bits % kPackBytes == 0) {
      done = end - end % kPack;
      update_chunk<kPack, kPack == 8 ? 1 : 2, T, G>(arrays, control, rule, factors, begin, done);
    }
  update_chunk<1, 4, T, G>(arrays, control, rule, factors, done, end);
}

template <class T, class G, class Rule>
__global__ void __launch_bounds__(kThreads)
    update_arrays(ArraysList list, ControlOf<T, Rule> control, Rule rule) {
  if (control.found_inf && *control.found_inf != 0) return;
  const int number = list.array_of(blockIdx.x);
  Arrays arrays = list.entries[number];
  const typename Rule::Factors factors = control.factors[number];
  const std::int64_t begin = (blockIdx.x - list.first_block[number]) * kChunk;
  const std::int64_t end = begin + kChunk < arrays.numel ? begin + kChunk : arrays.numel;
  const auto grad = reinterpret_cast<std::uintptr_t>(arrays.grad);
  arrays.grad = reinterpret_cast<const void*>(grad & ~std::uintptr_t{1});
  if (!std::is_same_v<T, G> && grad % 2 != 0)
    update_some<T, T>(arrays, control, rule, factors, begin, end);
  else
    update_some<T, G>(arrays, control, rule, factors, begin, end);
  if constexpr (requires { rule.finish(); }) rule.finish();
}

struct Nothing {
  void operator()(const ArraysList&, std::size_t) const {}
};

/// Launches the pass, one list of arrays at a time; after(list, index of its first array) launches
/// the kernels that follow each list. `decay` is added to the gradient.
template <class T, class G, class Rule, class After = Nothing>
void for_each_update(const Stream& stream, const char* name, const OptimBatch& batch,
                     const typename Rule::Factors* factors, double decay, bool maximize,
                     const Rule& rule, const After& after = {}) {
  for_each_list<Arrays>(
      batch.tensors.size(), kChunk,
      [&](std::size_t i) {
        const OptimTensor& t = batch.tensors[i];
        const void* const grad = static_cast<const char*>(t.grad) + (t.wide_grad ? 1 : 0);
        return Arrays{t.param, grad, {t.state[0], t.state[1], t.state[2]}, t.copy, t.numel};
      },
      [&](const ArraysList& list, std::size_t first) {
        const ControlOf<T, Rule> control{factors + first, batch.inv_scale,
                                         batch.found_inf, static_cast<Compute<T>>(decay),
                                         maximize,        batch.copy_dtype};
        launch({name, stream, list.blocks, kThreads}, update_arrays<T, G, Rule>, list, control,
               rule);
        after(list, first);
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

}  // namespace ferrite::kernels::cuda::steps
