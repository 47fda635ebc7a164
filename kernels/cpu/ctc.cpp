#include "ferrite/kernels/ctc.h"

#include <algorithm>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

namespace {

template <class C>
void run_forward(const CtcArgs& args, std::int64_t n, C* losses, C* alpha) {
  const CtcSequence<C> q(args, n);
  for (std::int64_t t = 0; t < q.steps; ++t)
    for (std::int64_t s = 0; s < q.positions(); ++s)
      alpha[t * q.width + s] = q.alpha(t, s, alpha + (t - 1) * q.width);
  losses[n] = q.loss(alpha + (q.steps - 1) * q.width);
}

template <class C>
void run_backward(const CtcArgs& args, std::int64_t n, C* out, C grad, C loss, const C* alpha,
                  C* beta, bool zero_infinity) {
  const CtcSequence<C> q(args, n);
  const std::int64_t steps = args.log_probs.sizes[0], classes = args.log_probs.sizes[2];
  const bool none = zero_infinity && loss == -q.kNever;
  for (std::int64_t t = steps - 1; t >= 0; --t) {
    C* row = out + t * q.step_stride + n * classes;
    if (none || t >= q.steps) {
      std::fill_n(row, classes, C(0));
      continue;
    }
    C* const b = beta + t * q.width;
    const C* const a = alpha + t * q.width;
    const C* const lp = q.log_probs + t * q.step_stride;
    for (std::int64_t s = 0; s < q.positions(); ++s) b[s] = q.beta(t, s, b + q.width);
    for (std::int64_t c = 0; c < classes; ++c) row[c] = q.gradient(lp[c], q.kNever, loss, grad);
    for (std::int64_t s = 0; s < q.positions(); ++s) {
      if (!q.is_first(s)) continue;
      const std::int64_t c = q.label(s);
      row[c] = q.gradient(lp[c], q.log_sum(s, a, b), loss, grad);
    }
  }
}

}  // namespace

void ctc_loss(const CtcArgs& args, const View& losses, const View& alpha) {
  dispatch_floating(losses.dtype, "ctc_loss", [&]<class T>() {
    if constexpr (!is_half_type<T>) {
      const std::int64_t each = alpha.sizes[1] * alpha.sizes[2];
      parallel_for(losses.numel, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n)
          run_forward(args, n, losses.as<T>(), alpha.as<T>() + n * each);
      });
    }
  });
}

void ctc_loss_backward(const CtcArgs& args, const View& out, const View& beta, const View& grad,
                       const View& losses, const View& alpha, bool zero_infinity) {
  dispatch_floating(out.dtype, "ctc_loss", [&]<class T>() {
    if constexpr (!is_half_type<T>) {
      const std::int64_t each = alpha.sizes[1] * alpha.sizes[2];
      parallel_for(losses.numel, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n)
          run_backward(args, n, out.as<T>(), grad.as<T>()[n], losses.as<T>()[n],
                       alpha.as<const T>() + n * each, beta.as<T>() + n * each, zero_infinity);
      });
    }
  });
}

}  // namespace ferrite::kernels::cpu
