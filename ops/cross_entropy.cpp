#include "ferrite/kernels/cross_entropy.h"

#include <optional>
#include <utility>

#include "ferrite/autograd/anomaly.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/loss_parts.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"

namespace ferrite {

using autograd::recording;
using autograd::Saved;
using kernels::View;

namespace {

/// One call of the fused kernels. The class dimension is 1.
struct Fused {
  const char* op;
  std::int64_t ignore_index;
  Reduction reduction;
  double label_smoothing;
  bool log_probabilities;

  kernels::CrossEntropyArgs args(const Tensor& logits, const Tensor& target,
                                 const Tensor& weight) const {
    return {.logits = logits,
            .dim = 1,
            .target = over_positions(target),
            .weight = weight.defined() ? View(weight) : View(),
            .ignore_index = ignore_index,
            .label_smoothing = label_smoothing,
            .log_probabilities = log_probabilities};
  }
  /// A tensor [N, d1, ...] in the form for kernels: with one class.
  static View over_positions(const Tensor& t) {
    View v(t);
    for (int d = v.ndim; d > 1; --d) v.sizes[d] = v.sizes[d - 1], v.strides[d] = v.strides[d - 1];
    v.sizes[1] = v.strides[1] = 1;
    ++v.ndim;
    return v;
  }
};

void check_weight(const Tensor& weight, const Tensor& input, std::int64_t classes, const char* op) {
  if (!weight.defined()) return;
  ops::check_same_device(input, weight, op);
  FERRITE_CHECK(weight.shape() == Shape({classes}) && is_floating(weight.dtype()), ShapeError, op,
                "expected one floating weight for each of {} classes, got {}", classes,
                weight.describe());
}

/// The fused kernels compute none.
void check_no_weight_gradient(const Tensor& weight, const char* op) {
  FERRITE_CHECK(!weight.defined() || !weight.requires_grad() || !grad_enabled(), AutogradError, op,
                "there is no gradient of class weights for targets of class indices; use "
                "weight.detach()");
}

/// The gradient of the logits by differentiable ops, for create_graph.
Tensor differentiable_gradient(const Fused& f, const Tensor& grad, const Tensor& logits,
                               const Tensor& target, const Tensor& weight) {
  const std::int64_t classes = logits.shape()[1];
  Tensor ignored, picked, own, divisor;  // constant
  no_grad([&] {
    ignored = eq(target, f.ignore_index);
    const Tensor safe = masked_fill(target, ignored, 0);
    Tensor w = weight.defined()
                   ? index_select(weight, 0, safe.reshape({-1})).reshape(target.shape())
                   : ones(target.shape(), {.dtype = logits.dtype(), .device = logits.device()});
    w = masked_fill(w.to(logits.dtype()), ignored, 0);
    divisor = sum(w);
    divisor = masked_fill(divisor, eq(divisor, 0), 1);  // all are ignored
    const Tensor counts = ne(target, f.ignore_index).to(logits.dtype()).unsqueeze(1);
    const Tensor hit = w.unsqueeze(1) * (1 - f.label_smoothing);
    const double smooth = f.label_smoothing / static_cast<double>(classes);
    Shape per_class = Shape::filled(logits.dim(), 1);
    per_class[1] = classes;
    const Tensor all = weight.defined()
                           ? weight.to(logits.dtype()).reshape(per_class)
                           : ones(per_class, {.dtype = logits.dtype(), .device = logits.device()});
    own = hit + counts * sum(all) * smooth;
    picked = scatter(zeros(logits.shape(), {.dtype = logits.dtype(), .device = logits.device()}), 1,
                     safe.unsqueeze(1), hit) +
             counts * all * smooth;
  });
  // Ignored logits may be NaN.
  const auto probabilities = [&] {
    return softmax(masked_fill(logits, ignored.unsqueeze(1), 0), 1);
  };
  const Tensor slope = f.log_probabilities ? picked * -1 : probabilities() * own - picked;
  switch (f.reduction) {
    case Reduction::none:
      return slope * grad.unsqueeze(1);
    case Reduction::sum:
      return slope * grad;
    case Reduction::mean:
    case Reduction::batchmean:
      break;
  }
  return slope * (grad / divisor);
}

/// `t` without gaps; itself if it has none.
Tensor dense(const Tensor& t) { return t.contiguous(t.suggest_memory_format()); }

/// The gradient of the logits from that of the result, with what forward kept for it.
struct Backward {
  Fused f;
  Saved input, target, weight;
  Tensor log_sums, divisor;

  Tensor operator()(const Tensor& grad) const {
    if (grad_enabled())
      return differentiable_gradient(f, grad, input.get(), target.get(), weight.get());
    const Tensor logits = dense(input.get()), targets = target.get(), weights = weight.get();
    const Tensor g = grad.contiguous();
    Tensor result = empty_like(logits);
    kernels::cross_entropy_backward(current_stream(logits.device()), result,
                                    f.args(logits, targets, weights),
                                    log_sums.defined() ? View(log_sums) : View(),
                                    f.reduction == Reduction::none ? Fused::over_positions(g) : g,
                                    divisor.defined() ? View(divisor) : View());
    return result;
  }
};

class CrossEntropyNode final : public autograd::Node {
 public:
  /// `of_one`: the logits' gradient if that of the result is 1, or nothing.
  CrossEntropyNode(const Tensor& out, const Tensor& input, Backward backward, Tensor of_one)
      : Node(backward.f.op, current_stream(out.device())),
        backward_(std::move(backward)),
        of_one_(std::move(of_one)) {
    autograd::detail::link_inputs(*this, {input});
  }
  autograd::Gradients backward(autograd::Gradients grads) override {
    if (!backward_) autograd::fail_released(name);
    autograd::Gradients result(1);
    result[0] = (*backward_)(grads[0]);
    return result;
  }
  void release_saved() override {
    backward_.reset();
    of_one_ = {};
  }
  Tensor gradient_of_one() override {
    if (!of_one_.defined() || autograd::is_anomaly_enabled()) return {};
    // These fail where they were changed.
    for (const Saved* saved : {&backward_->input, &backward_->target, &backward_->weight})
      (void)saved->get();
    return of_one_;
  }

 private:
  std::optional<Backward> backward_;
  Tensor of_one_;
};

Tensor run(const Fused& f, const Tensor& input, const Tensor& target, const Tensor& weight) {
  const DType wide = input.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const auto [x, t, w] = no_grad([&] {
    return std::tuple(dense(input), target.to(kInt64).contiguous(),
                      weight.defined() ? weight.to(wide).contiguous() : Tensor());
  });
  const bool records = recording(input);
  const Stream stream = current_stream(x.device());
  const TensorOptions statistics{.dtype = kFloat64, .device = x.device()};
  Tensor out = empty(f.reduction == Reduction::none ? t.shape() : Shape(),
                     {.dtype = x.dtype(), .device = x.device()});
  Tensor log_sums, divisor, of_one;
  kernels::CrossEntropyResult result;
  if (records && !f.log_probabilities) {
    log_sums = empty(t.shape(), statistics);
    result.log_sums = Fused::over_positions(log_sums);
  }
  if (f.reduction == Reduction::none) {
    result.losses = Fused::over_positions(out);
  } else {
    (f.reduction == Reduction::mean ? result.mean : result.sum) = out;
  }
  if (records && f.reduction == Reduction::mean) result.divisor = divisor = empty({}, statistics);
  const kernels::CrossEntropyArgs args = f.args(x, t, w);
  if (divisor.defined() && x.device().is_cuda() && kernels::computes_gradient_in_forward(args))
    result.gradient = of_one = empty_like(x);
  kernels::cross_entropy(stream, args, result);
  if (records)
    autograd::detail::link_output(
        out,
        make_intrusive<CrossEntropyNode>(
            out, input, Backward{f, Saved(input), Saved(t), Saved(w), log_sums, divisor}, of_one),
        0);
  return out;
}

/// For class indices: checks shapes, and expands [C] to [1, C].
Tensor of_indices(const Fused& f, const Tensor& input, const Tensor& target, const Tensor& weight) {
  if (input.dim() == 1) {
    FERRITE_CHECK(target.dim() == 0 || target.shape() == Shape({1}), ShapeError, f.op,
                  "input {} expects one target, got {}", input.describe(), target.describe());
    const Tensor out = of_indices(f, input.unsqueeze(0), target.reshape({1}), weight);
    return f.reduction == Reduction::none ? out.reshape(target.shape()) : out;
  }
  Shape expected = input.shape();
  expected.erase(1);
  FERRITE_CHECK(target.shape() == expected, ShapeError, f.op, "input {} expects target {}, got {}",
                input.describe(), expected, target.describe());
  FERRITE_CHECK(input.shape()[1] > 0 || target.numel() == 0, ShapeError, f.op,
                "input {} has no classes", input.describe());
  return run(f, input, target, weight);
}

/// For class probabilities.
Tensor of_probabilities(const Tensor& input, const Tensor& target,
                        const CrossEntropyOptions& options) {
  const int dim = input.dim() == 1 ? 0 : 1;
  const std::int64_t classes = input.shape()[dim];
  Tensor y = target;
  if (options.label_smoothing > 0)
    y = y * (1 - options.label_smoothing) + options.label_smoothing / static_cast<double>(classes);
  if (options.weight.defined()) {
    Shape per_class = Shape::filled(input.dim(), 1);
    per_class[dim] = classes;
    y = y * options.weight.to(input.dtype()).reshape(per_class);
  }
  return ops::reduced(sum(log_softmax(input, dim) * y, {dim}) * -1, options.reduction,
                      "cross_entropy");
}

void check_input(const Tensor& input, const Tensor& target, const char* op) {
  ops::check_same_device(input, target, op);
  FERRITE_CHECK(input.device() == target.device(), DeviceError, op,
                "input and target are on different devices: {} and {}; move one with to(device)",
                input.describe(), target.describe());
  FERRITE_CHECK(input.dim() >= 1, ShapeError, op, "input needs a dimension of classes, got {}",
                input.describe());
  FERRITE_CHECK(is_floating(input.dtype()), DTypeError, op,
                "input must be of a floating type, got {}", input.describe());
}

}  // namespace

Tensor cross_entropy(const Tensor& input, const Tensor& target,
                     const CrossEntropyOptions& options) {
  if (const auto cast = ops::autocast(AutocastOp::cross_entropy, input, target)) {
    const auto& [x, y] = *cast;
    return cross_entropy(x, y, options);
  }
  const profiler::OpRange range("cross_entropy", input, target);
  check_input(input, target, "cross_entropy");
  ops::check_reduction(options.reduction, "cross_entropy");
  FERRITE_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1, ValueError,
                "cross_entropy", "label_smoothing must be in [0, 1], got {}",
                options.label_smoothing);
  const std::int64_t classes = input.shape()[input.dim() == 1 ? 0 : 1];
  check_weight(options.weight, input, classes, "cross_entropy");
  if (is_floating(target.dtype())) {
    FERRITE_CHECK(target.shape() == input.shape(), ShapeError, "cross_entropy",
                  "a target of class probabilities has the input's shape: expected {}, got {}",
                  input.shape(), target.describe());
    FERRITE_CHECK(options.ignore_index < 0, ValueError, "cross_entropy",
                  "ignore_index is not supported for a floating target, got {} with target {}; set "
                  "those probabilities to 0",
                  options.ignore_index, target.describe());
    return of_probabilities(input, target, options);
  }
  FERRITE_CHECK(is_integral(target.dtype()), DTypeError, "cross_entropy",
                "target must hold int64 classes or floating probabilities, got {}",
                target.describe());
  check_no_weight_gradient(options.weight, "cross_entropy");
  return of_indices(
      {"cross_entropy", options.ignore_index, options.reduction, options.label_smoothing, false},
      input, target, options.weight);
}

Tensor nll_loss(const Tensor& input, const Tensor& target, const NllLossOptions& options) {
  if (const auto cast = ops::autocast(AutocastOp::nll_loss, input))
    return nll_loss(*cast, target, options);
  const profiler::OpRange range("nll_loss", input, target);
  check_input(input, target, "nll_loss");
  ops::check_reduction(options.reduction, "nll_loss");
  FERRITE_CHECK(is_integral(target.dtype()), DTypeError, "nll_loss",
                "target must hold int64 classes, got {}", target.describe());
  check_weight(options.weight, input, input.shape()[input.dim() == 1 ? 0 : 1], "nll_loss");
  check_no_weight_gradient(options.weight, "nll_loss");
  return of_indices({"nll_loss", options.ignore_index, options.reduction, 0, true}, input, target,
                    options.weight);
}

}  // namespace ferrite
