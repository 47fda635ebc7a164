#include "ferrite/ops/lstm.h"

#include <array>
#include <utility>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/kernels/lstm.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"

namespace ferrite::detail {

using autograd::Gradients;
using autograd::Needs;
using autograd::Saved;

namespace {

constexpr const char* kOp = "lstm";

/// The t-th step's index in a sequence.
std::int64_t at_step(std::int64_t t, std::int64_t steps, bool reverse) {
  return reverse ? steps - 1 - t : t;
}

/// Step after step by ops, for gradients of gradients.
LstmSequence composed(const Tensor& x, const LstmWeights& w, LstmStates states, bool reverse) {
  const std::vector<Tensor> projected = unbind(linear(x, w.ih, w.bias), 0);
  std::vector<Tensor> hidden(projected.size());
  const std::int64_t steps = x.size(0);
  for (std::int64_t t = 0; t < steps; ++t) {
    const auto at = static_cast<std::size_t>(at_step(t, steps, reverse));
    states = lstm_step(projected[at], w.hh, states);
    hidden[at] = states.h;
  }
  return {stack(hidden, 0), states};
}

/// [rows, columns] of [T, N, columns].
Tensor rows_of(const Tensor& t) { return t.flatten(0, 1); }

/// What each step starts from: `first`, and the results of the steps before the last one.
Tensor before_steps(const Tensor& first, const Tensor& all, bool reverse) {
  const std::int64_t rest = all.size(0) - 1;
  if (rest == 0) return first.unsqueeze(0);
  return reverse ? cat({all.narrow(0, 1, rest), first.unsqueeze(0)}, 0)
                 : cat({first.unsqueeze(0), all.narrow(0, 0, rest)}, 0);
}

/// What the node keeps: the inputs, its results, and of each step the gates and the cell's state.
struct Kept {
  Saved x, weight_ih, weight_hh, bias, h, c, output;
  Tensor gates, cells;
  bool reverse;
};

enum Input : std::size_t { kX, kWeightIh, kWeightHh, kBias, kH, kC, kInputs };

Gradients by_ops(const Kept& k, const Gradients& grads, Needs needs) {
  const std::array<Tensor, kInputs> all{k.x.get(),    k.weight_ih.get(), k.weight_hh.get(),
                                        k.bias.get(), k.h.get(),         k.c.get()};
  const LstmSequence s = composed(all[kX], {all[kWeightIh], all[kWeightHh], all[kBias]},
                                  {all[kH], all[kC]}, k.reverse);
  std::vector<Tensor> outputs, given, inputs;
  const std::array<Tensor, 2> results{s.output, s.last.c};
  for (std::size_t i = 0; i < results.size(); ++i)
    if (grads[i].defined()) outputs.push_back(results[i]), given.push_back(grads[i]);
  for (std::size_t i = 0; i < kInputs; ++i)
    if (needs[i]) inputs.push_back(all[i]);
  const std::vector<Tensor> found =
      autograd::grad(outputs, inputs, given, /*retain_graph=*/true, /*create_graph=*/true,
                     /*allow_unused=*/true);
  Gradients result(kInputs);
  for (std::size_t i = 0, next = 0; i < kInputs; ++i)
    if (needs[i]) result[i] = found[next++];
  return result;
}

/// The gradients of all steps' sums, [T, N, 4 * H], and of the initial cell states.
std::pair<Tensor, Tensor> gradients_of_sums(const Kept& k, const Gradients& grads) {
  const Tensor c = k.c.get().contiguous(), weight = k.weight_hh.get().contiguous();
  const DType dtype = k.gates.dtype(), wide = dtype == kFloat64 ? kFloat64 : kFloat32;
  const Tensor by_h =
      grads[0].defined() ? empty_like(k.cells).copy_(grads[0]) : zeros_like(k.cells);
  const Tensor by_c = (grads[1].defined() ? grads[1].clone() : zeros_like(c)).to(wide).contiguous();
  const Tensor by_sums = empty_like(k.gates);
  kernels::lstm_steps_backward(current_stream(by_sums.device()),
                               {k.gates, k.cells, {}, c, weight, k.reverse}, by_sums, by_c, by_h);
  return {by_sums, by_c.to(dtype)};
}

Gradients backward(const Kept& k, const Gradients& grads, Needs needs) {
  if (grad_enabled()) return by_ops(k, grads, needs);
  const auto [by_sums, by_c] = gradients_of_sums(k, grads);
  const Tensor rows = rows_of(by_sums);
  const std::int64_t steps = by_sums.size(0);
  Gradients result(kInputs);
  if (needs[kX]) result[kX] = matmul(by_sums, k.weight_ih.get());
  if (needs[kWeightIh]) result[kWeightIh] = matmul(rows.t(), rows_of(k.x.get().contiguous()));
  if (needs[kWeightHh])
    result[kWeightHh] =
        matmul(rows.t(), rows_of(before_steps(k.h.get(), k.output.get(), k.reverse)));
  if (needs[kBias]) result[kBias] = sum(rows, {0});
  if (needs[kH])
    result[kH] = matmul(by_sums.select(0, at_step(0, steps, k.reverse)), k.weight_hh.get());
  if (needs[kC]) result[kC] = by_c;
  return result;
}

}  // namespace

LstmStates lstm_step(const Tensor& projected, const Tensor& weight_hh, const LstmStates& s) {
  const std::vector<Tensor> gates = chunk(addmm(projected, s.h, weight_hh.t()), 4, 1);
  const Tensor c = sigmoid(gates[1]) * s.c + sigmoid(gates[0]) * tanh(gates[2]);
  return {sigmoid(gates[3]) * tanh(c), c};
}

LstmSequence lstm_sequence(const Tensor& x, const LstmWeights& w, const LstmStates& initial,
                           bool reverse) {
  const profiler::OpRange range(kOp, x, w.hh);
  if (x.size(1) == 0) return composed(x, w, initial, reverse);
  const std::int64_t steps = x.size(0);
  const TensorOptions options{.dtype = x.dtype(), .device = x.device()};
  const Shape states{steps, x.size(1), w.hh.size(1)};
  const Tensor gates = no_grad([&] { return linear(x, w.ih, w.bias).contiguous(); });
  const Tensor output = empty(states, options), cells = empty(states, options);
  no_grad([&] {
    const Tensor h = initial.h.contiguous(), c = initial.c.contiguous(), weight = w.hh.contiguous();
    kernels::lstm_steps(current_stream(x.device()), {gates, cells, h, c, weight, reverse}, output);
  });
  const std::int64_t end = at_step(steps - 1, steps, reverse);
  const Tensor last_c = no_grad([&] { return cells.select(0, end).clone(); });
  if (autograd::recording(x, w.ih, w.hh, w.bias, initial.h, initial.c)) {
    const std::array<Tensor, 2> results{output, last_c};
    const std::array<Tensor, kInputs> inputs{x, w.ih, w.hh, w.bias, initial.h, initial.c};
    autograd::record_many(
        results, kOp, inputs,
        [kept = Kept{Saved(x), Saved(w.ih), Saved(w.hh), Saved(w.bias), Saved(initial.h),
                     Saved(initial.c), Saved::output(output), gates, cells, reverse}](
            const Gradients& grads, Needs needs) { return backward(kept, grads, needs); });
  }
  return {output, {output.select(0, end), last_c}};
}

}  // namespace ferrite::detail
