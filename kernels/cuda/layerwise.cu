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

/// The norms are those of the stored gradients, before unscaling.
template <class C>
struct LarsRule : Pass {
  static constexpr int kStates = 1;
  struct Factors {
    C lr, momentum;
    C trust;  ///< ratio, of the decayed gradient
    C decay;
    bool first;  ///< whether it is the first step
  };
  LarsArgs args;
  const float* inv_scale;
  const double* norms;  ///< of the parameters, then of the gradients
  std::uint32_t count;  ///< of parameters

  __device__ __forceinline__ Factors factors(const Now& now) const {
    Factors f{static_cast<C>(now.lr), static_cast<C>(now.momentum), 1, 0, now.step == 1};
    if (now.adapts) {
      const double scale = inv_scale ? static_cast<double>(*inv_scale) : 1;
      f.decay = static_cast<C>(args.weight_decay);
      f.trust = static_cast<C>(trust_ratio(args, norms[now.parameter],
                                           fabs(scale) * norms[count + now.parameter], now.lr));
    }
    return f;
  }
  __device__ __forceinline__ void operator()(const Factors& f, C& p, C g,
                                             C (&state)[kStates]) const {
    g = f.trust * (g + f.decay * p);
    if (args.momentum != 0) {
      const C buffer = f.first ? g : f.momentum * state[0] + static_cast<C>(1 - args.dampening) * g;
      state[0] = buffer;
      g = args.nesterov ? g + f.momentum * buffer : buffer;
    }
    p -= f.lr * g;
  }
};

/// Writes Euclidean norms to an array on the device.
void norms_of(const Stream& stream, const FlatTensors& tensors, double* out) {
  View each;
  each.data = out;
  cuda::norms(stream, tensors, 2, each, {});
}

// ---- LAMB: a pass for the moments and the norms, one for the parameters

/// What both passes have. They compute updates from the moments as stored, so that these are the
/// same.
template <class C>
struct LambPass : Pass {
  static constexpr int kStates = 2;
  struct Factors {
    C beta1, take1;
    C unbias1, unbias2;  ///< 1 / (1 - beta1^step) and 1 / sqrt(1 - beta2^step)
    C decay;
  };
  double beta2, weight_decay;
  C eps;
  bool bias_correction;

  explicit LambPass(const LambArgs& args)
      : beta2(args.beta2),
        weight_decay(args.weight_decay),
        eps(static_cast<C>(args.eps)),
        bias_correction(args.bias_correction) {}

  __device__ __forceinline__ Factors factors(const Now& now) const {
    Factors f{static_cast<C>(now.momentum), static_cast<C>(1 - now.momentum), 1, 1,
              now.adapts ? static_cast<C>(weight_decay) : C(0)};
    if (bias_correction) {
      f.unbias1 = static_cast<C>(1 / (1 - power(now.momentum, now.step)));
      f.unbias2 = static_cast<C>(1 / sqrt(1 - power(beta2, now.step)));
    }
    return f;
  }
  /// Adam's update of a parameter, before it is scaled.
  __device__ __forceinline__ C update(const Factors& f, C p, C first, C second) const {
    return f.unbias1 * first / (sqrt(second) * f.unbias2 + eps) + f.decay * p;
  }
};

struct Squares {
  double weight, update;
};
struct AddSquares {
  __device__ __forceinline__ Squares operator()(const Squares& a, const Squares& b) const {
    return {a.weight + b.weight, a.update + b.update};
  }
};

template <class T, class C = Compute<T>>
struct LambMoments : LambPass<C> {
  static constexpr bool kWritesParam = false;
  Squares* partial;  ///< one per block
  Squares sum = {};

  LambMoments(const LambArgs& args, Squares* partial) : LambPass<C>(args), partial(partial) {}

  __device__ __forceinline__ void operator()(const typename LambPass<C>::Factors& f, C& p, C g,
                                             C (&state)[2]) {
    state[0] = f.beta1 * state[0] + f.take1 * g;
    state[1] = static_cast<C>(this->beta2) * state[1] + static_cast<C>(1 - this->beta2) * g * g;
    const double u = this->update(f, p, static_cast<C>(static_cast<T>(state[0])),
                                  static_cast<C>(static_cast<T>(state[1])));
    sum.weight += static_cast<double>(p) * static_cast<double>(p);
    sum.update += u * u;
  }
  __device__ __forceinline__ void finish() const {
    const Squares all = block_reduce<kThreads>(sum, Squares{}, AddSquares());
    if (threadIdx.x == 0) partial[blockIdx.x] = all;
  }
};

using LambList = ArrayListFor<Arrays<2>>;

/// step_sizes[i] = lr * trust ratio of the i-th parameter of the list. One block per parameter.
__global__ void __launch_bounds__(kThreads)
    scale_lamb(LambList list, LambArgs args, const double* lr, const float* found_inf,
               const Squares* partial, double* step_sizes) {
  if (found_inf && *found_inf != 0) return;
  const int array = static_cast<int>(blockIdx.x);
  const unsigned begin = list.first_block[array];
  const unsigned end = array + 1 < list.count ? list.first_block[array + 1] : list.blocks;
  Squares sum = {};
  for (unsigned i = begin + threadIdx.x; i < end; i += kThreads)
    sum = AddSquares()(sum, partial[i]);
  sum = block_reduce<kThreads>(sum, Squares{}, AddSquares());
  if (threadIdx.x != 0) return;
  const bool adapts = list.entries[array].adapts != 0;
  step_sizes[array] = *lr * (adapts ? trust_ratio(args, sqrt(sum.weight), sqrt(sum.update)) : 1.0);
}

template <class C>
struct LambRule : LambPass<C> {
  static constexpr bool kReadsGrad = false, kWritesState = false, kCounts = false;
  struct Factors : LambPass<C>::Factors {
    C step_size;
  };
  const double* step_sizes;

  LambRule(const LambArgs& args, const double* step_sizes)
      : LambPass<C>(args), step_sizes(step_sizes) {}

  __device__ __forceinline__ Factors factors(const Now& now) const {
    return {LambPass<C>::factors(now), static_cast<C>(step_sizes[now.parameter])};
  }
  __device__ __forceinline__ void operator()(const Factors& f, C& p, C, C (&state)[2]) const {
    p -= f.step_size * this->update(f, p, state[0], state[1]);
  }
};

}  // namespace

void lars(const Stream& stream, const OptimBatch& batch, const LarsArgs& args) {
  const std::size_t count = batch.tensors.size();
  if (count == 0) return;
  const Workspace workspace(stream, 2 * count * sizeof(double));
  auto* const norms = workspace.as<double>();
  FlatTensors params{.arrays = {}, .dtype = batch.dtype},
      grads{.arrays = {}, .dtype = batch.grad_dtype.value_or(batch.dtype)};
  for (const OptimTensor& t : batch.tensors) {
    params.arrays.push_back({t.param, t.numel});
    grads.arrays.push_back({const_cast<void*>(t.grad), t.numel});
  }
  norms_of(stream, params, norms);
  norms_of(stream, grads, norms + count);
  dispatch(batch, "lars", [&]<class T, class G>() {
    const LarsRule<Compute<T>> rule{
        {}, args, batch.inv_scale, norms, static_cast<std::uint32_t>(count)};
    for_each_update<T, G>(stream, "lars", batch, args.momentum, 0, args.maximize, rule);
  });
}

void lamb(const Stream& stream, const OptimBatch& batch, const LambArgs& args) {
  const std::size_t count = batch.tensors.size();
  if (count == 0) return;
  std::size_t blocks = 0;
  for (const OptimTensor& t : batch.tensors) blocks += blocks_of(t.numel);
  const Workspace sizes(stream, count * sizeof(double)), sums(stream, blocks * sizeof(Squares));
  auto* const step_sizes = sizes.as<double>();
  dispatch(batch, "lamb", [&]<class T, class G>() {
    // In stream order, the sums of one list are used before those of the next overwrite them.
    auto* const partial = sums.as<Squares>();
    const LambMoments<T> moments(args, partial);
    for_each_update<T, G>(
        stream, "lamb_moments", batch, args.beta1, 0, args.maximize, moments,
        [&](const LambList& list, std::size_t first) {
          launch({"scale_lamb", stream, static_cast<unsigned>(list.count), kThreads}, scale_lamb,
                 list, args, batch.lr, batch.found_inf, partial, step_sizes + first);
        });
    for_each_update<T, G>(stream, "lamb", batch, args.beta1, 0, args.maximize,
                          LambRule<Compute<T>>(args, step_sizes));
  });
}

}  // namespace ferrite::kernels::cuda
