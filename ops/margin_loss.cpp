#include "ferrite/ops/margin_loss.h"

#include <cmath>
#include <numbers>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/check_range.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/indexing.h"
#include "ferrite/ops/loss_parts.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using ops::composed_loss;

// ---- Elementwise

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonNllLossOptions& o) {
  const auto elements = [&](const Tensor& x, const Tensor& y) {
    const Tensor loss = o.log_input ? exp(x) - y * x : x - y * log(x + o.eps);
    if (!o.full) return loss;
    const Tensor counted = where(gt(y, 1), y, 1);
    const Tensor stirling =
        counted * log(counted) - counted + log(counted * (2 * std::numbers::pi)) * 0.5;
    return loss + where(gt(y, 1), stirling, 0);
  };
  return composed_loss("poisson_nll_loss", o.reduction, elements, input, target);
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNllLossOptions& o) {
  constexpr const char* op = "gaussian_nll_loss";
  const auto elements = [&](const Tensor& x, const Tensor& y, const Tensor& given) {
    Tensor v = given;
    FERRITE_CHECK(is_floating(v.dtype()), DTypeError, op, "var must be of a floating type, got {}",
                  v.describe());
    if (v.shape() != x.shape()) {
      Shape rows = x.shape();
      if (x.dim() > 0) rows.erase(x.dim() - 1);
      int other = 0;
      for (int d = 0; v.dim() == x.dim() && d < x.dim(); ++d)
        other += v.size(d) != x.size(d) ? (v.size(d) == 1 ? 1 : 2) : 0;
      if (x.dim() > 0 && v.shape() == rows)
        v = v.unsqueeze(-1);
      else
        FERRITE_CHECK(v.dim() == x.dim() && other <= 1, ShapeError, op,
                      "expected var of the input's shape {}, of one dimension of size 1, or "
                      "without the last one, got {}",
                      x.shape(), given.describe());
    }
    kernels::check_range(current_stream(v.device()), op, v, 0, INFINITY);
    v = v + no_grad([&] { return clamp_min(v, o.eps) - v; });
    const Tensor loss = (log(v) + square(x - y) / v) * 0.5;
    return o.full ? loss + 0.5 * std::log(2 * std::numbers::pi) : loss;
  };
  return composed_loss(op, o.reduction, elements, input, target, var);
}

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target,
                            const HingeEmbeddingLossOptions& o) {
  const auto elements = [&](const Tensor& x, const Tensor& y) {
    return where(ne(y, 1), relu(o.margin - x), 0) + where(ne(y, -1), x, 0);
  };
  return composed_loss("hinge_embedding_loss", o.reduction, elements, input, target);
}

Tensor soft_margin_loss(const Tensor& input, const Tensor& target, Choice<Reduction> reduction) {
  const auto elements = [](const Tensor& x, const Tensor& y) {
    return softplus(neg(y * x), 1, 50);
  };
  return composed_loss("soft_margin_loss", reduction, elements, input, target);
}

// ---- Pairs and triplets

Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           const MarginRankingLossOptions& o) {
  constexpr const char* op = "margin_ranking_loss";
  const auto elements = [&](const Tensor& a, const Tensor& b, const Tensor& y) {
    FERRITE_CHECK(a.dim() == b.dim() && a.dim() == y.dim(), ShapeError, op,
                  "expected inputs and a target of as many dimensions, got {}, {} and {}",
                  a.describe(), b.describe(), y.describe());
    return relu(y * (b - a) + o.margin);
  };
  return composed_loss(op, o.reduction, elements, input1, input2, target);
}

Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             const CosineEmbeddingLossOptions& o) {
  constexpr const char* op = "cosine_embedding_loss";
  const auto elements = [&](const Tensor& a, const Tensor& b, const Tensor& y) {
    FERRITE_CHECK((y.dim() == 0 || y.dim() == 1) && a.dim() == y.dim() + 1 && b.dim() == a.dim(),
                  ShapeError, op,
                  "expected inputs [N, D] with a target [N], or [D] with [], got {}, {} and {}",
                  a.describe(), b.describe(), y.describe());
    constexpr double kEpsilon = 1e-12;
    const auto product = [](const Tensor& u, const Tensor& v) { return sum(u * v, {-1}); };
    const Tensor cosine =
        product(a, b) / sqrt((product(a, a) + kEpsilon) * (product(b, b) + kEpsilon));
    return where(eq(y, 1), 1 - cosine, 0) + where(eq(y, -1), relu(cosine - o.margin), 0);
  };
  return composed_loss(op, o.reduction, elements, input1, input2, target);
}

namespace {

Tensor distance(const Tensor& a, const Tensor& b, double p, double eps, bool keepdim,
                const char* op) {
  const Tensor d = a - b + eps;
  FERRITE_CHECK(d.dim() > 0, ShapeError, op,
                "expected vectors in the last dimension, got {} and {}", a.describe(),
                b.describe());
  return norm(d, p, {-1}, keepdim);
}

template <class Distance>
Tensor triplet_loss(const char* op, const Tensor& anchor, const Tensor& positive,
                    const Tensor& negative, double margin, bool swap, Reduction reduction,
                    const Distance& d) {
  FERRITE_CHECK(margin > 0, ValueError, op, "margin must be above 0, got {}", margin);
  const auto elements = [&](const Tensor& a, const Tensor& p, const Tensor& n) {
    FERRITE_CHECK(a.dim() == p.dim() && p.dim() == n.dim(), ShapeError, op,
                  "expected inputs of as many dimensions, got {}, {} and {}", a.describe(),
                  p.describe(), n.describe());
    Tensor far = d(a, n);
    if (swap) far = minimum(far, d(p, n));
    return relu(d(a, p) - far + margin);
  };
  return composed_loss(op, reduction, elements, anchor, positive, negative);
}

}  // namespace

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& o) {
  constexpr const char* op = "triplet_margin_loss";
  return triplet_loss(
      op, anchor, positive, negative, o.margin, o.swap, o.reduction,
      [&](const Tensor& a, const Tensor& b) { return distance(a, b, o.p, o.eps, false, op); });
}

Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative,
                                         const TripletMarginWithDistanceLossOptions& o) {
  constexpr const char* op = "triplet_margin_with_distance_loss";
  return triplet_loss(op, anchor, positive, negative, o.margin, o.swap, o.reduction,
                      [&](const Tensor& a, const Tensor& b) {
                        return o.distance_function ? o.distance_function(a, b)
                                                   : distance(a, b, 2, 1e-6, false, op);
                      });
}

// ---- Classes and labels

Tensor ops::checked_classes(const Tensor& target, const Tensor& input, std::int64_t classes,
                            const char* op) {
  if (tracing::on())  // which they are, but for errors
    return tracing::op("to", {target}, {},
                       [&] { return checked_classes(target, input, classes, op); });
  const Tensor index = checked_index(target, input, op);
  // The values of a range at the indices are the indices, once each is known to be one.
  const Tensor range = arange(classes, {.dtype = kInt64, .device = input.device()});
  return index_select(range, 0, index.reshape({index.numel()}), op).reshape(target.shape());
}

Tensor multi_margin_loss(const Tensor& input, const Tensor& target,
                         const MultiMarginLossOptions& o) {
  constexpr const char* op = "multi_margin_loss";
  FERRITE_CHECK(o.p == 1 || o.p == 2, ValueError, op, "p must be 1 or 2, got {}", o.p);
  const auto elements = [&](const Tensor& x, const Tensor& y) {
    FERRITE_CHECK(x.dim() == 1 || x.dim() == 2, ShapeError, op,
                  "expected an input [N, C] or [C], got {}", x.describe());
    const bool batched = x.dim() == 2;
    FERRITE_CHECK(y.dim() <= 1 && y.numel() == (batched ? x.size(0) : 1), ShapeError, op,
                  "input {} expects one target for each row, got {}", x.describe(), y.describe());
    const std::int64_t classes = x.size(-1);
    FERRITE_CHECK(classes > 0, ShapeError, op, "input {} has no classes", x.describe());
    const Tensor rows = batched ? x : x.unsqueeze(0);
    const Tensor label = ops::checked_classes(y, x, classes, op).reshape({rows.size(0), 1});
    const Tensor index = arange(classes, {.dtype = kInt64, .device = x.device()});
    Tensor loss = relu(rows - gather(rows, 1, label) + o.margin);
    if (o.p == 2) loss = square(loss);
    if (o.weight.defined()) {
      FERRITE_CHECK(o.weight.device() == x.device(), DeviceError, op,
                    "weight is on {}, the input on {}", o.weight.device(), x.device());
      FERRITE_CHECK(is_floating(o.weight.dtype()) && o.weight.shape() == Shape{classes}, ShapeError,
                    op, "expected one floating weight for each of {} classes, got {}", classes,
                    o.weight.describe());
      loss = loss * gather(o.weight.to(x.dtype()), 0, label.squeeze(1)).unsqueeze(1);
    }
    loss = sum(where(ne(index, label), loss, 0), {1}) / static_cast<double>(classes);
    return batched ? loss : loss.reshape(y.shape());
  };
  return composed_loss(op, o.reduction, elements, input, target);
}

Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                              Choice<Reduction> reduction) {
  constexpr const char* op = "multilabel_margin_loss";
  const auto elements = [&](const Tensor& x, const Tensor& y) {
    FERRITE_CHECK(x.dim() == 1 || x.dim() == 2, ShapeError, op,
                  "expected an input [N, C] or [C], got {}", x.describe());
    FERRITE_CHECK(is_integral(y.dtype()) && y.dtype() != kBool, DTypeError, op,
                  "target must hold int64 labels, got {}", y.describe());
    FERRITE_CHECK(y.shape() == x.shape(), ShapeError, op, "input {} expects target {}, got {}",
                  x.describe(), x.shape(), y.describe());
    const std::int64_t classes = x.size(-1);
    FERRITE_CHECK(classes > 0, ShapeError, op, "input {} has no classes", x.describe());
    const Tensor rows = x.dim() == 2 ? x : x.unsqueeze(0);
    const Tensor labels = y.to(kInt64).reshape(rows.shape());
    const Tensor counts = eq(cumsum(lt(labels, 0), 1), 0);  // those before the first -1
    const Tensor safe = ops::checked_classes(where(counts, labels, 0), x, classes, op);
    const Tensor index = arange(classes, {.dtype = kInt64, .device = x.device()});
    const Tensor hit = logical_and(counts.unsqueeze(2), eq(safe.unsqueeze(2), index));
    const Tensor pairs =
        logical_and(counts.unsqueeze(2), logical_not(any(hit, 1, true)));  // [N, labels, C]
    const Tensor excess = relu(rows.unsqueeze(1) - gather(rows, 1, safe).unsqueeze(2) + 1);
    const Tensor loss = sum(where(pairs, excess, 0), {1, 2}) / static_cast<double>(classes);
    return x.dim() == 2 ? loss : loss.squeeze(0);
  };
  return composed_loss(op, reduction, elements, input, target);
}

Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const MultilabelSoftMarginLossOptions& o) {
  constexpr const char* op = "multilabel_soft_margin_loss";
  const auto elements = [&](const Tensor& x, const Tensor& y) {
    FERRITE_CHECK(x.dim() > 0, ShapeError, op, "expected classes in the last dimension, got {}",
                  x.describe());
    Tensor loss = neg(y * logsigmoid(x) + (1 - y) * logsigmoid(neg(x)));
    if (o.weight.defined()) loss = loss * o.weight.to(x.dtype());
    return mean(loss, {-1});
  };
  return composed_loss(op, o.reduction, elements, input, target);
}

}  // namespace ferrite
