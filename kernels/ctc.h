// Connectionist temporal classification: the sums over all alignments of a sequence of labels with
// the steps of a longer sequence of log probabilities, by dynamic programming (Graves et al. 2006).
#pragma once

#include <cmath>
#include <limits>

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// All contiguous. Lengths are in range: input_lengths [N] in [0, T], target_lengths [N] in [0, S].
struct CtcArgs {
  View log_probs;  ///< [T, N, C], float32 or float64
  View targets;    ///< int64 [N, S], labels in [0, C); what lies beyond the lengths is not read
  View input_lengths, target_lengths;  ///< int64 [N]
  std::int64_t blank = 0;
};

/// `losses` [N], of the type of log_probs: the negative log likelihoods, infinite where no
/// alignment exists. `alpha` [N, T, 2 S + 1], of the same type: for each step and each label, with
/// blanks between and around, the log probability of all alignments that got there.
FERRITE_KERNEL(ctc_loss, const CtcArgs& args, const View& losses, const View& alpha);

/// `out` [T, N, C] contiguous: as in PyTorch, the gradient of log_probs that a log_softmax before
/// them, whose gradient sums to 0, would pass on: exp(log_probs) minus the probability that a step
/// has a class, times `grad` [N]; 0 beyond the input's length, and for an infinite loss if
/// `zero_infinity`. `beta` has the shape of alpha, and is written.
FERRITE_KERNEL_OF("ctc_loss", ctc_loss_backward, const CtcArgs& args, const View& out,
                  const View& beta, const View& grad, const View& losses, const View& alpha,
                  bool zero_infinity);

/// One sequence: the formulas for every kind of device.
template <class C>
struct CtcSequence {
  FERRITE_HOST_DEVICE CtcSequence(const CtcArgs& args, std::int64_t n)
      : log_probs(static_cast<const C*>(args.log_probs.data) + n * args.log_probs.sizes[2]),
        step_stride(args.log_probs.sizes[1] * args.log_probs.sizes[2]),
        targets(static_cast<const std::int64_t*>(args.targets.data) + n * args.targets.sizes[1]),
        steps(static_cast<const std::int64_t*>(args.input_lengths.data)[n]),
        labels(static_cast<const std::int64_t*>(args.target_lengths.data)[n]),
        width(2 * args.targets.sizes[1] + 1),
        blank(args.blank) {}

  static constexpr C kNever = -std::numeric_limits<C>::infinity();

  FERRITE_HOST_DEVICE static C log_add(C a, C b) {
    const C most = a < b ? b : a, least = a < b ? a : b;
    return most == kNever ? kNever : most + std::log1p(std::exp(least - most));
  }

  /// Positions among labels and blanks.
  FERRITE_HOST_DEVICE std::int64_t positions() const { return 2 * labels + 1; }
  FERRITE_HOST_DEVICE std::int64_t label(std::int64_t s) const {
    return s % 2 == 0 ? blank : targets[s / 2];
  }
  FERRITE_HOST_DEVICE C log_prob(std::int64_t t, std::int64_t s) const {
    return log_probs[t * step_stride + label(s)];
  }

  /// Alpha of the first step, or from the row `before` of the previous one.
  FERRITE_HOST_DEVICE C alpha(std::int64_t t, std::int64_t s, const C* before) const {
    if (t == 0) return s < 2 ? log_prob(0, s) : kNever;
    C sum = before[s];
    if (s > 0) sum = log_add(sum, before[s - 1]);
    if (s > 1 && label(s) != label(s - 2)) sum = log_add(sum, before[s - 2]);
    return sum + log_prob(t, s);
  }
  /// The same from the end.
  FERRITE_HOST_DEVICE C beta(std::int64_t t, std::int64_t s, const C* after) const {
    const std::int64_t end = positions();
    if (t == steps - 1) return s >= end - 2 ? log_prob(t, s) : kNever;
    C sum = after[s];
    if (s + 1 < end) sum = log_add(sum, after[s + 1]);
    if (s + 2 < end && label(s) != label(s + 2)) sum = log_add(sum, after[s + 2]);
    return sum + log_prob(t, s);
  }
  /// From the row of the last step.
  FERRITE_HOST_DEVICE C loss(const C* last) const {
    if (steps == 0) return labels == 0 ? C(0) : -kNever;
    const std::int64_t end = positions();
    return -(labels == 0 ? last[0] : log_add(last[end - 1], last[end - 2]));
  }

  /// Whether position `s` is the first of its label, which then stands for all of them.
  FERRITE_HOST_DEVICE bool is_first(std::int64_t s) const {
    if (s % 2 == 0) return s == 0;
    if (label(s) == blank) return false;
    for (std::int64_t k = 1; k < s; k += 2)
      if (label(k) == label(s)) return false;
    return true;
  }
  /// The log of the sum of alpha * beta over the positions of the label of `s`, its first.
  FERRITE_HOST_DEVICE C log_sum(std::int64_t s, const C* alpha, const C* beta) const {
    C sum = kNever;
    for (std::int64_t k = s; k < positions(); ++k)
      if (label(k) == label(s)) sum = log_add(sum, alpha[k] + beta[k]);
    return sum;
  }
  /// The gradient of a class of log probability `lp`.
  FERRITE_HOST_DEVICE static C gradient(C lp, C log_sum, C loss, C grad) {
    return (std::exp(lp) - std::exp(log_sum + loss - lp)) * grad;
  }

  const C* log_probs;
  std::int64_t step_stride;
  const std::int64_t* targets;
  std::int64_t steps, labels;
  std::int64_t width;  ///< of the rows of alpha and beta
  std::int64_t blank;
};

}  // namespace ferrite::kernels
