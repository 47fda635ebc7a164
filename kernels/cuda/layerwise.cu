// LARS and LAMB: steps whose size depends on the norms of each parameter.
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/optim.cuh"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/layerwise.h"
#include "ferrite/kernels/multi_tensor.h"

namespace ferrite::kernels::cuda {

namespace {

using namespace steps;

// ---- LARS: the norms of parameters and gradients, then one pass like that of SGD

struct LarsFactors {
  double lr, momentum;
  double trust;  ///< ratio, of the decayed gradient
  double decay;
  double first;  ///< whether it is the first step
};

/// The inputs of the factors, on the device. Norms are those of the stored gradients, before
/// unscaling.
struct LarsControl {
  const double *lr, *momentum;
  const float *inv_scale, *found_inf;
  const double *param_norms, *grad_norms;
};

__global__ void __launch_bounds__(kThreads)
    count_lars(StepCounters counters, LarsArgs args, LarsControl control, LarsFactors* factors) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= counters.count || (control.found_inf && *control.found_inf != 0)) return;
  const std::int64_t step = ++*counters.entries[i].step;
  const double lr = *control.lr;
  LarsFactors f{lr, control.momentum ? *control.momentum : args.momentum, 1, 0,
                step == 1 ? 1.0 : 0.0};
  if (counters.entries[i].adapts) {
    const double scale = control.inv_scale ? static_cast<double>(*control.inv_scale) : 1;
    f.decay = args.weight_decay;
    f.trust = trust_ratio(args, control.param_norms[i], fabs(scale) * control.grad_norms[i], lr);
  }
  factors[i] = f;
}

template <class C>
struct LarsRule : Pass<LarsFactors> {
  C take;
  bool has_buffer, nesterov;

  __device__ __forceinline__ void operator()(const LarsFactors& f, C& p, C g,
                                             C (&state)[kStates]) const {
    g = static_cast<C>(f.trust) * (g + static_cast<C>(f.decay) * p);
    if (has_buffer) {
      const auto momentum = static_cast<C>(f.momentum);
      const C buffer = f.first != 0 ? g : momentum * state[0] + take * g;
      state[0] = buffer;
      g = nesterov ? g + momentum * buffer : buffer;
    }
    p -= static_cast<C>(f.lr) * g;
  }
};

/// Writes Euclidean norms to an array on the device.
void norms_of(const Stream& stream, const FlatTensors& tensors, double* out) {
  View each;
  each.data = out;
  cuda::norms(stream, tensors, 2, each, {});
}

// ---- LAMB: a pass for the moments and the norms, one for the parameters

struct LambFactors {
  double beta1;
  double unbias1, unbias2;  ///< 1 / (1 - beta1^step) and 1 / sqrt(1 - beta2^step)
  double decay;
  double step_size;  ///< lr * trust ratio, once the norms are known
  double adapts;
};

__global__ void __launch_bounds__(kThreads)
    count_lamb(StepCounters counters, LambArgs args, const double* momentum, const float* found_inf,
               LambFactors* factors) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= counters.count || (found_inf && *found_inf != 0)) return;
  const auto step = static_cast<double>(++*counters.entries[i].step);
  LambFactors f{momentum ? *momentum : args.beta1, 1, 1, 0, 0, 0};
  if (args.bias_correction) {
    f.unbias1 = 1 / (1 - pow(f.beta1, step));
    f.unbias2 = 1 / sqrt(1 - pow(args.beta2, step));
  }
  if (counters.entries[i].adapts) {
    f.decay = args.weight_decay;
    f.adapts = 1;
  }
  factors[i] = f;
}

/// Adam's update of a parameter, before it is scaled.
template <class C>
__device__ __forceinline__ C lamb_update(const LambFactors& f, C eps, C p, C first, C second) {
  return static_cast<C>(f.unbias1) * first / (sqrt(second) * static_cast<C>(f.unbias2) + eps) +
         static_cast<C>(f.decay) * p;
}

struct Squares {
  double weight, update;
};
struct AddSquares {
  __device__ __forceinline__ Squares operator()(const Squares& a, const Squares& b) const {
    return {a.weight + b.weight, a.update + b.update};
  }
};

/// The sums are over updates computed from the moments as stored, because the second pass reads
/// them so.
template <class T, class C = Compute<T>>
struct LambMoments : Pass<LambFactors> {
  static constexpr bool kWritesParam = false;
  C beta2, take2, eps;
  Squares* partial;  ///< one per block
  Squares sum = {};

  __device__ __forceinline__ void operator()(const LambFactors& f, C& p, C g, C (&state)[kStates]) {
    state[0] = static_cast<C>(f.beta1) * state[0] + static_cast<C>(1 - f.beta1) * g;
    state[1] = beta2 * state[1] + take2 * g * g;
    const double u = lamb_update(f, eps, p, static_cast<C>(static_cast<T>(state[0])),
                                 static_cast<C>(static_cast<T>(state[1])));
    sum.weight += static_cast<double>(p) * static_cast<double>(p);
    sum.update += u * u;
  }
  __device__ __forceinline__ void finish() const {
    const Squares all = block_reduce<kThreads>(sum, Squares{}, AddSquares());
    if (threadIdx.x == 0) partial[blockIdx.x] = all;
  }
};

/// One block per array.
__global__ void __launch_bounds__(kThreads)
    scale_lamb(ArraysList list, LambArgs args, const double* lr, const float* found_inf,
               const Squares* partial, LambFactors* factors) {
  if (found_inf && *found_inf != 0) return;
  const int array = static_cast<int>(blockIdx.x);
  const unsigned begin = list.first_block[array];
  const unsigned end = array + 1 < list.count ? list.first_block[array + 1] : list.blocks;
  Squares sum = {};
  for (unsigned i = begin + threadIdx.x; i < end; i += kThreads)
    sum = AddSquares()(sum, partial[i]);
  sum = block_reduce<kThreads>(sum, Squares{}, AddSquares());
  if (threadIdx.x != 0) return;
  LambFactors& f = factors[array];
  f.step_size = *lr * (f.adapts != 0 ? trust_ratio(args, sqrt(sum.weight), sqrt(sum.update)) : 1.0);
}

template <class C>
struct LambRule : Pass<LambFactors> {
  static constexpr bool kReadsGrad = false, kWritesState = false;
  C eps;

  __device__ __forceinline__ void operator()(const LambFactors& f, C& p, C,
                                             C (&state)[kStates]) const {
    p -= static_cast<C>(f.step_size) * lamb_update(f, eps, p, state[0], state[1]);
  }
};

}  // namespace

void lars(const Stream& stream, const OptimBatch& batch, const LarsArgs& args) {
  const std::size_t count = batch.tensors.size();
  if (count == 0) return;
  const Workspace norms(stream, 2 * count * sizeof(double)),
      workspace(stream, count * sizeof(LarsFactors));
  auto* const param_norms = norms.as<double>();
  auto* const factors = workspace.as<LarsFactors>();
  FlatTensors params{.arrays = {}, .dtype = batch.dtype},
      grads{.arrays = {}, .dtype = batch.grad_dtype.value_or(batch.dtype)};
  for (const OptimTensor& t : batch.tensors) {
    params.arrays.push_back({t.param, t.numel});
    grads.arrays.push_back({const_cast<void*>(t.grad), t.numel});
  }
  norms_of(stream, params, param_norms);
  norms_of(stream, grads, param_norms + count);
  for_each_counters(batch, [&](const StepCounters& counters, std::size_t first) {
    const LarsControl control{batch.lr,        batch.momentum,      batch.inv_scale,
                              batch.found_inf, param_norms + first, param_norms + count + first};
    launch({"count_lars", stream, blocks_for(counters.count, kThreads), kThreads}, count_lars,
           counters, args, control, factors + first);
  });
  dispatch(batch, "lars", [&]<class T, class G>() {
    using C = Compute<T>;
    const LarsRule<C> rule{
        {}, static_cast<C>(1 - args.dampening), args.momentum != 0, args.nesterov};
    for_each_update<T, G>(stream, "lars", batch, factors, 0, args.maximize, rule);
  });
}

void lamb(const Stream& stream, const OptimBatch& batch, const LambArgs& args) {
  const std::size_t count = batch.tensors.size();
  if (count == 0) return;
  std::int64_t blocks = 0;
  for (const OptimTensor& t : batch.tensors) blocks += blocks_for(t.numel, kChunk);
  const Workspace workspace(stream, count * sizeof(LambFactors)),
      sums(stream, static_cast<std::size_t>(blocks + 1) * sizeof(Squares));
  auto* const factors = workspace.as<LambFactors>();
  for_each_counters(batch, [&](const StepCounters& counters, std::size_t first) {
    launch({"count_lamb", stream, blocks_for(counters.count, kThreads), kThreads}, count_lamb,
           counters, args, batch.momentum, batch.found_inf, factors + first);
  });
  dispatch(batch, "lamb", [&]<class T, class G>() {
    using C = Compute<T>;
    const C eps = static_cast<C>(args.eps);
    // In stream order, the sums of one list are used before those of the next overwrite them.
    auto* const partial = sums.as<Squares>();
    const LambMoments<T> moments{
        {}, static_cast<C>(args.beta2), static_cast<C>(1 - args.beta2), eps, partial, {}};
    for_each_update<T, G>(
        stream, "lamb_moments", batch, factors, 0, args.maximize, moments,
        [&](const ArraysList& list, std::size_t first) {
          launch({"scale_lamb", stream, static_cast<unsigned>(list.count), kThreads}, scale_lamb,
                 list, args, batch.lr, batch.found_inf, partial, factors + first);
        });
    for_each_update<T, G>(stream, "lamb", batch, factors, 0, args.maximize, LambRule<C>{{}, eps});
  });
}

}  // namespace ferrite::kernels::cuda
