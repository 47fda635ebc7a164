// One block per sequence goes through the steps, its threads through the positions of a step. The
// gradient then has one block for each step of each sequence.
#include "ferrite/kernels/ctc.h"
#include "ferrite/kernels/cuda/launch.cuh"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kCtcThreads = 128;

template <class C>
__global__ void __launch_bounds__(kCtcThreads)
    ctc_alpha_kernel(const __grid_constant__ CtcArgs args, C* losses, C* alpha,
                     std::int64_t sequence_stride) {
  const std::int64_t n = blockIdx.x;
  const CtcSequence<C> q(args, n);
  C* const rows = alpha + n * sequence_stride;
  for (std::int64_t t = 0; t < q.steps; ++t) {
    C* const row = rows + t * q.width;
    for (std::int64_t s = threadIdx.x; s < q.positions(); s += kCtcThreads)
      row[s] = q.alpha(t, s, row - q.width);
    __syncthreads();
  }
  if (threadIdx.x == 0) losses[n] = q.loss(rows + (q.steps - 1) * q.width);
}

template <class C>
__global__ void __launch_bounds__(kCtcThreads)
    ctc_beta_kernel(const __grid_constant__ CtcArgs args, C* beta, std::int64_t sequence_stride) {
  const std::int64_t n = blockIdx.x;
  const CtcSequence<C> q(args, n);
  C* const rows = beta + n * sequence_stride;
  for (std::int64_t t = q.steps - 1; t >= 0; --t) {
    C* const row = rows + t * q.width;
    for (std::int64_t s = threadIdx.x; s < q.positions(); s += kCtcThreads)
      row[s] = q.beta(t, s, row + q.width);
    __syncthreads();
  }
}

template <class C>
__global__ void __launch_bounds__(kCtcThreads)
    ctc_gradient_kernel(const __grid_constant__ CtcArgs args, C* out, const C* grad,
                        const C* losses, const C* alpha, const C* beta,
                        std::int64_t sequence_stride, bool zero_infinity) {
  const std::int64_t sequences = args.log_probs.sizes[1], classes = args.log_probs.sizes[2];
  const std::int64_t n = blockIdx.x % sequences, t = blockIdx.x / sequences;
  const CtcSequence<C> q(args, n);
  C* const row = out + t * q.step_stride + n * classes;
  const C loss = losses[n], g = grad[n];
  if (t >= q.steps || (zero_infinity && loss == -q.kNever)) {
    for (std::int64_t c = threadIdx.x; c < classes; c += kCtcThreads) row[c] = C(0);
    return;
  }
  const C* const lp = q.log_probs + t * q.step_stride;
  const std::int64_t at = n * sequence_stride + t * q.width;
  for (std::int64_t c = threadIdx.x; c < classes; c += kCtcThreads)
    row[c] = q.gradient(lp[c], q.kNever, loss, g);
  __syncthreads();
  for (std::int64_t s = threadIdx.x; s < q.positions(); s += kCtcThreads) {
    if (!q.is_first(s)) continue;
    const std::int64_t c = q.label(s);
    row[c] = q.gradient(lp[c], q.log_sum(s, alpha + at, beta + at), loss, g);
  }
}

/// The distance of two sequences in alpha.
std::int64_t stride_of(const View& alpha) { return alpha.sizes[1] * alpha.sizes[2]; }

template <class F>
void dispatch_wide(DType dtype, F f) {
  if (dtype == kFloat64)
    f.template operator()<double>();
  else
    f.template operator()<float>();
}

}  // namespace

void ctc_loss(const Stream& stream, const CtcArgs& args, const View& losses, const View& alpha) {
  if (losses.numel == 0) return;
  dispatch_wide(losses.dtype, [&]<class C>() {
    launch({"ctc_alpha", stream, blocks_for(losses.numel, 1), kCtcThreads}, ctc_alpha_kernel<C>,
           args, losses.as<C>(), alpha.as<C>(), stride_of(alpha));
  });
}

void ctc_loss_backward(const Stream& stream, const CtcArgs& args, const View& out, const View& beta,
                       const View& grad, const View& losses, const View& alpha,
                       bool zero_infinity) {
  if (out.numel == 0) return;
  dispatch_wide(out.dtype, [&]<class C>() {
    launch({"ctc_beta", stream, blocks_for(losses.numel, 1), kCtcThreads}, ctc_beta_kernel<C>, args,
           beta.as<C>(), stride_of(alpha));
    launch({"ctc_gradient", stream, blocks_for(out.sizes[0] * losses.numel, 1), kCtcThreads},
           ctc_gradient_kernel<C>, args, out.as<C>(), static_cast<const C*>(grad.as<C>()),
           static_cast<const C*>(losses.as<C>()), static_cast<const C*>(alpha.as<C>()),
           static_cast<const C*>(beta.as<C>()), stride_of(alpha), zero_infinity);
  });
}

}  // namespace ferrite::kernels::cuda
