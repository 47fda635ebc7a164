// Optimizer steps over many parameters at once (after Apex's multi_tensor_apply): each block
// updates a chunk of one parameter in a single pass over its arrays, by a rule for one element. The
// blocks of a parameter also count its step.
#pragma once

#include <type_traits>

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/adaptive.h"
#include "ferrite/kernels/cuda/multi_tensor.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/optim.h"

namespace ferrite::kernels::cuda::steps {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 4096;  // elements per block

/// Base of rules. A rule has a type `Factors`, the values per parameter that an update needs,
/// factors(now), by which one thread of each block computes them, and `operator()(factors, p, g,
/// state)`, which updates one element in the Compute type. `state` holds the element's kStates
/// states, of which those without an array are 0; `g` is its gradient after unscaling and weight
/// decay. If a rule has `finish()`, all threads of a block call it at the end.
struct Pass {
  static constexpr bool kReadsGrad = true, kWritesParam = true, kWritesState = true;
  static constexpr bool kCounts = true;      ///< counts the step, or else an earlier pass did
  static constexpr bool kHasScalar = false;  ///< uses OptimTensor::scalar
};

/// What a parameter's factors are made of.
struct Now : rules::Now {
  std::uint32_t parameter;  ///< its index in the batch
  bool adapts;
};

template <int States>
struct Arrays {
  void* param;
  const void* grad;
  void* state[States];
  void* copy;
  std::int64_t* step;
  std::int64_t numel : 62;
  std::uint64_t wide_grad : 1;  ///< `grad` has the type of `param`, though other gradients do not
  std::uint64_t adapts : 1;
};
/// Behind the states comes the scalar, if the rule has one.
template <class Rule>
using ArraysOf = Arrays<Rule::kStates + (Rule::kHasScalar ? 1 : 0)>;
template <class Rule>
using ArraysList = ArrayListFor<ArraysOf<Rule>>;

/// The values that the update reads on the device, and the transformation of a gradient before the
/// rule.
template <class C>
struct Control {
  const double *lr, *momentum_at;
  double momentum;  ///< or beta1; where momentum_at is null
  const float *inv_scale, *found_inf;
  C decay;              ///< added to the gradient; 0: none
  std::uint32_t first;  ///< index of the list's first parameter in the batch
  bool maximize;
  DType copy_dtype;
};

struct CountedStep {
  std::int64_t number;  ///< 1 at first
  bool last;            ///< whether all other blocks have called count_step() before
};

/// Counts a step of a parameter. Each of its `blocks` blocks calls this once, and the last to do so
/// increments the count; the upper half of the counter says how many have come. So all of them see
/// the same count, without memory besides the counter, for up to 2^32 - 1 steps.
__device__ __forceinline__ CountedStep count_step(std::int64_t* counter, unsigned blocks) {
  constexpr unsigned long long kBlock = 1ull << 32;
  auto* const word = reinterpret_cast<unsigned long long*>(counter);
  const unsigned long long before = atomicAdd(word, kBlock);
  const bool last = before / kBlock == blocks - 1;
  if (last) atomicAdd(word, 1 - blocks * kBlock);
  return {static_cast<std::int64_t>(before % kBlock) + 1, last};
}

/// beta^step, as exact as beta is. pow() is a call, around which registers would be spilled.
__device__ __forceinline__ double power(double beta, double step) {
  double result = 1;
  for (auto n = static_cast<std::uint32_t>(step); n > 0; n /= 2, beta *= beta)
    if (n % 2 == 1) result *= beta;
  return result;
}

/// The blocks of a parameter; one without elements has one, which counts the step.
FERRITE_HOST_DEVICE constexpr unsigned blocks_of(std::int64_t numel) {
  return numel > 0 ? static_cast<unsigned>((numel - 1) / kChunk + 1) : 1;
}

/// The factors of the update of a parameter, the `number`-th of a list.
template <class T, class Rule, class List>
__device__ __forceinline__ typename Rule::Factors factors_of(const List& list, int number,
                                                             const Control<Compute<T>>& control,
                                                             Rule& rule) {
  const ArraysOf<Rule>& arrays = list.entries[number];
  Now now{{0, *control.lr, control.momentum_at ? *control.momentum_at : control.momentum},
          control.first + static_cast<std::uint32_t>(number),
          arrays.adapts != 0};
  if constexpr (!Rule::kCounts) {
    now.step = static_cast<double>(*arrays.step);
    return rule.factors(now);
  } else if constexpr (!Rule::kHasScalar) {
    now.step = static_cast<double>(count_step(arrays.step, blocks_of(arrays.numel)).number);
    return rule.factors(now);
  } else {
    // The last block changes the scalar, after all others have read it.
    T* const scalar = static_cast<T*>(arrays.state[Rule::kStates]);
    now.scalar = static_cast<double>(static_cast<Compute<T>>(*scalar));
    __threadfence();
    const CountedStep step = count_step(arrays.step, blocks_of(arrays.numel));
    __threadfence();
    now.step = static_cast<double>(step.number);
    const typename Rule::Factors factors = rule.factors(now);
    if (step.last) *scalar = static_cast<T>(static_cast<Compute<T>>(now.scalar));
    return factors;
  }
}

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
__device__ __forceinline__ void update_chunk(const ArraysOf<Rule>& arrays,
                                             const Control<Compute<T>>& control, Rule& rule,
                                             const typename Rule::Factors& factors,
                                             std::int64_t begin, std::int64_t end) {
  using C = Compute<T>;
  C scale = control.inv_scale ? static_cast<C>(*control.inv_scale) : C(1);
  if (control.maximize) scale = -scale;
  for (std::int64_t first = begin + threadIdx.x * V; first < end; first += kThreads * V * U) {
    Pack<T, V> param[U], state[U][Rule::kStates];
    Pack<G, V> grad[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const std::int64_t at = first + u * kThreads * V;
      if (at >= end) break;
      param[u] = load_from<V, T>(arrays.param, at);
      if constexpr (Rule::kReadsGrad) grad[u] = load_from<V, G>(arrays.grad, at);
#pragma unroll
      for (int k = 0; k < Rule::kStates; ++k)
        if (arrays.state[k]) state[u][k] = load_from<V, T>(arrays.state[k], at);
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const std::int64_t at = first + u * kThreads * V;
      if (at >= end) break;
#pragma unroll
      for (int i = 0; i < V; ++i) {
        C p = param[u].v[i], g = 0;
        C s[Rule::kStates] = {};
        if constexpr (Rule::kReadsGrad) {
          g = scale * static_cast<C>(grad[u].v[i]);
          if (control.decay != 0) g += control.decay * p;
        }
#pragma unroll
        for (int k = 0; k < Rule::kStates; ++k)
          if (arrays.state[k]) s[k] = state[u][k].v[i];
        rule(factors, p, g, s);
        param[u].v[i] = static_cast<T>(p);
#pragma unroll
        for (int k = 0; k < Rule::kStates; ++k) state[u][k].v[i] = static_cast<T>(s[k]);
      }
      if constexpr (Rule::kWritesState) {
#pragma unroll
        for (int k = 0; k < Rule::kStates; ++k)
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
__device__ __forceinline__ void update_some(const ArraysOf<Rule>& arrays,
                                            const Control<Compute<T>>& control, Rule& rule,
                                            const typename Rule::Factors& factors,
                                            std::int64_t begin, std::int64_t end) {
  constexpr int kPack = useful_pack<T, G>();
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(arrays.param) |
                        reinterpret_cast<std::uintptr_t>(arrays.grad) |
                        reinterpret_cast<std::uintptr_t>(arrays.copy);
#pragma unroll
  for (int k = 0; k < Rule::kStates; ++k) bits |= reinterpret_cast<std::uintptr_t>(arrays.state[k]);
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
    update_arrays(ArraysList<Rule> list, Control<Compute<T>> control, Rule rule) {
  if (control.found_inf && *control.found_inf != 0) return;
  const int number = list.array_of(blockIdx.x);
  FERRITE_SHARED(shared, typename Rule::Factors);
  if (threadIdx.x == 0) shared = factors_of<T>(list, number, control, rule);
  const ArraysOf<Rule> arrays = list.entries[number];
  const std::int64_t begin = (blockIdx.x - list.first_block[number]) * kChunk;
  const std::int64_t end = begin + kChunk < arrays.numel ? begin + kChunk : arrays.numel;
  __syncthreads();
  const typename Rule::Factors factors = shared;
  if (!std::is_same_v<T, G> && arrays.wide_grad)
    update_some<T, T>(arrays, control, rule, factors, begin, end);
  else
    update_some<T, G>(arrays, control, rule, factors, begin, end);
  if constexpr (requires { rule.finish(); }) rule.finish();
}

struct Nothing {
  template <class List>
  void operator()(const List&, std::size_t) const {}
};

/// Launches the pass, one list of arrays at a time; after(list, index of its first array) launches
/// the kernels that follow each list. `momentum`, or beta1, counts where the batch has none on the
/// device; `decay` is added to the gradient.
template <class T, class G, class Rule, class After = Nothing>
void for_each_update(const Stream& stream, const char* name, const OptimBatch& batch,
                     double momentum, double decay, bool maximize, const Rule& rule,
                     const After& after = {}) {
  using C = Compute<T>;
  static_assert(sizeof(ArraysList<Rule>) + sizeof(Control<C>) + sizeof(Rule) <= 4096,
                "the arguments of a kernel");
  for_each_list<ArraysOf<Rule>>(
      batch.tensors.size(), kChunk,
      [&](std::size_t i) {
        const OptimTensor& t = batch.tensors[i];
        ArraysOf<Rule> arrays{t.param, t.grad, {}, t.copy, t.step, t.numel, t.wide_grad, t.adapts};
        for (int k = 0; k < Rule::kStates; ++k) arrays.state[k] = t.state[k];
        if constexpr (Rule::kHasScalar) arrays.state[Rule::kStates] = t.scalar;
        return arrays;
      },
      [&](const ArraysList<Rule>& list, std::size_t first) {
        const Control<C> control{batch.lr,
                                 batch.momentum,
                                 momentum,
                                 batch.inv_scale,
                                 batch.found_inf,
                                 static_cast<C>(decay),
                                 static_cast<std::uint32_t>(first),
                                 maximize,
                                 batch.copy_dtype};
        launch({name, stream, list.blocks, kThreads}, update_arrays<T, G, Rule>, list, control,
               rule);
        after(list, first);
      },
      1);
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
