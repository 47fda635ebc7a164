#include "ferrite/ops/ctc_loss.h"

#include <algorithm>
#include <cmath>

#include "ferrite/autograd/record.h"
#include "ferrite/kernels/check_range.h"
#include "ferrite/kernels/ctc.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/indexing.h"
#include "ferrite/ops/loss_parts.h"
#include "ferrite/ops/reduce.h"

namespace ferrite {

using autograd::Needs;
using autograd::Saved;

namespace {

constexpr const char* kCtc = "ctc_loss";

/// One length for each sequence, on the device; those outside [0, most] are reported.
Tensor checked_lengths(const Tensor& given, std::int64_t count, std::int64_t most, const Tensor& x,
                       const char* what) {
  const Tensor lengths = ops::checked_index(given, x, kCtc);
  FERRITE_CHECK(lengths.numel() == count && lengths.dim() <= 1, ShapeError, kCtc,
                "expected {} of {} sequences, got {}", what, count, given.describe());
  kernels::check_range(current_stream(x.device()), kCtc, lengths.to(kFloat64), 0,
                       static_cast<double>(most));
  // Kernels of the host threw; on other devices they go on with lengths that are in range.
  return clamp(lengths.reshape({count}), 0, most).contiguous();
}

/// Labels [N, S], with zeros beyond the lengths.
struct Targets {
  Tensor labels, lengths;
};

Targets padded_targets(const Tensor& targets, const Tensor& target_lengths, std::int64_t count,
                       bool batched, const Tensor& x) {
  const Tensor given = ops::checked_index(targets, x, kCtc);
  FERRITE_CHECK(given.dim() == 1 || (batched && given.dim() == 2 && given.size(0) == count),
                ShapeError, kCtc, "expected targets [N, S] or [sum of the lengths], got {} for {}",
                targets.describe(), x.describe());
  const TensorOptions index{.dtype = kInt64, .device = x.device()};
  const bool in_rows = given.dim() == 2 || !batched;
  const std::int64_t most = in_rows ? given.size(-1) : given.numel();
  Targets t;
  t.lengths = checked_lengths(target_lengths, count, most, x, "target_lengths");
  const std::int64_t width = in_rows || count == 0 ? most : amax(t.lengths).item<std::int64_t>();
  const Tensor columns = arange(width, index), inside = lt(columns, t.lengths.unsqueeze(1));
  Tensor rows = in_rows ? given.reshape({count, width}) : given;
  if (!in_rows) {
    FERRITE_CHECK(sum(t.lengths).item<std::int64_t>() == given.numel(), ShapeError, kCtc,
                  "the target_lengths do not add up to the {} targets", given.numel());
    const Tensor first = (cumsum(t.lengths, 0) - t.lengths).unsqueeze(1);
    const Tensor at = where(inside, first + columns, 0);
    rows = index_select(given, 0, at.reshape({count * width})).reshape({count, width});
  }
  t.labels = ops::checked_classes(where(inside, rows, 0), x, x.size(-1), kCtc).contiguous();
  return t;
}

/// The losses of each sequence, [N].
Tensor losses_of(const Tensor& input, const Targets& targets, const Tensor& input_lengths,
                 const CtcLossOptions& o) {
  const Tensor x = no_grad([&] { return input.contiguous(); });
  const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
  Tensor out = empty({x.size(1)}, like);
  const Tensor alpha = empty({x.size(1), x.size(0), 2 * targets.labels.size(1) + 1}, like);
  const auto args = [=](const Tensor& log_probs) {
    return kernels::CtcArgs{.log_probs = log_probs,
                            .targets = targets.labels,
                            .input_lengths = input_lengths,
                            .target_lengths = targets.lengths,
                            .blank = o.blank};
  };
  kernels::ctc_loss(current_stream(x.device()), args(x), out, alpha);
  if (autograd::recording(input))
    autograd::record(out, kCtc, {input},
                     [=, x = Saved(input), losses = Saved::output(out),
                      zero_infinity = o.zero_infinity](const Tensor& grad, Needs) -> Tensor {
                       autograd::once_differentiable();
                       const Tensor log_probs = x.get().contiguous();
                       Tensor result = empty_like(log_probs);
                       kernels::ctc_loss_backward(current_stream(result.device()), args(log_probs),
                                                  result, empty_like(alpha), grad.contiguous(),
                                                  losses.get(), alpha, zero_infinity);
                       return result;
                     });
  return out;
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcLossOptions& o) {
  for (const Tensor* t : {&targets, &input_lengths, &target_lengths})
    FERRITE_CHECK(t->defined(), ValueError, kCtc, "targets or lengths are undefined");
  const auto elements = [&](const Tensor& given) {
    FERRITE_CHECK(given.dim() == 2 || given.dim() == 3, ShapeError, kCtc,
                  "expected log_probs [T, N, C] or [T, C], got {}", given.describe());
    const bool batched = given.dim() == 3;
    Tensor x = batched ? given : given.unsqueeze(1);
    const std::int64_t steps = x.size(0), count = x.size(1), classes = x.size(2);
    FERRITE_CHECK(o.blank >= 0 && o.blank < classes, ValueError, kCtc,
                  "expected a blank among the {} classes, got {}", classes, o.blank);
    const Tensor lengths = checked_lengths(input_lengths, count, steps, x, "input_lengths");
    const Targets t = padded_targets(targets, target_lengths, count, batched, x);
    if (x.dtype() != kFloat64) x = x.to(kFloat32);
    Tensor losses = losses_of(x, t, lengths, o);
    if (o.zero_infinity) losses = where(eq(losses, INFINITY), 0, losses);
    if (o.reduction == Reduction::mean) losses = losses / clamp_min(t.lengths, 1);
    losses = losses.to(given.dtype());
    return batched ? losses : losses.squeeze(0);
  };
  return ops::composed_loss(kCtc, o.reduction, elements, log_probs);
}

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                const std::vector<std::int64_t>& input_lengths,
                const std::vector<std::int64_t>& target_lengths, const CtcLossOptions& o) {
  FERRITE_CHECK(log_probs.defined(), ValueError, kCtc, "log_probs are undefined");
  const TensorOptions index{.dtype = kInt64, .device = log_probs.device()};
  return ctc_loss(log_probs, targets, tensor(input_lengths, index), tensor(target_lengths, index),
                  o);
}

}  // namespace ferrite
