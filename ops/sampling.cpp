#include "ferrite/ops/sampling.h"

#include <limits>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

namespace {

constexpr double kNotDrawn = -std::numeric_limits<double>::infinity();

void check_sampling(const Tensor& logits, const SamplingOptions& o, const char* op) {
  FERRITE_CHECK(logits.defined(), ValueError, op, "the logits are undefined");
  FERRITE_CHECK(is_floating(logits.dtype()), DTypeError, op, "expected a floating type, got {}",
                logits.describe());
  FERRITE_CHECK(logits.dim() >= 1 && logits.size(-1) > 0, ShapeError, op,
                "expected [..., C] of one class or more, got {}", logits.shape());
  FERRITE_CHECK(o.temperature >= 0, ValueError, op, "temperature: expected 0 or more, got {}",
                o.temperature);
  FERRITE_CHECK(o.top_k >= 0, ValueError, op, "top_k: expected 0 (all) or more, got {}", o.top_k);
  FERRITE_CHECK(o.top_p > 0 && o.top_p <= 1, ValueError, op,
                "top_p: expected a number above 0 and at most 1, got {}", o.top_p);
}

/// -log(-log(u)) for uniform u above 0, so that both logarithms are finite.
Tensor gumbel_like(const Tensor& logits, Generator* generator) {
  const DType dtype = logits.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const Tensor u =
      clamp_min(rand(logits.shape(), {.dtype = dtype, .device = logits.device()}, generator),
                static_cast<double>(std::numeric_limits<float>::min()));
  return -log(-log(u));
}

}  // namespace

Tensor filter_logits(const Tensor& logits, const SamplingOptions& o) {
  const profiler::OpRange range("filter_logits", logits);
  check_sampling(logits, o, "filter_logits");
  Tensor x = o.temperature > 0 ? logits / o.temperature : logits;
  const std::int64_t k = o.temperature > 0 ? o.top_k : 1;
  const auto from = [&](const Tensor& lowest) {
    return masked_fill(x, no_grad([&] { return lt(x, lowest); }), kNotDrawn);
  };
  if (k > 0 && k < x.size(-1)) x = from(amin(topk(x.detach(), k).values, {-1}, true));
  if (o.top_p < 1 && x.numel() > 0)
    x = from(no_grad([&] {
      const Tensor sorted = sort(x, -1, true).values, shares = softmax(sorted, -1);
      const Tensor dropped = ge(cumsum(shares, -1) - shares, o.top_p);
      return amin(masked_fill(sorted, dropped, std::numeric_limits<double>::infinity()), {-1},
                  true);
    }));
  return x;
}

Tensor sample_logits(const Tensor& logits, const SamplingOptions& options, Generator* generator) {
  const NoGradGuard guard;
  const profiler::OpRange range("sample_logits", logits);
  check_sampling(logits, options, "sample_logits");
  const Tensor x = filter_logits(logits, options);
  if (options.temperature == 0 || x.numel() == 0) return argmax(x, -1);
  const Tensor noise = gumbel_like(x, generator);
  return argmax(x.to(noise.dtype()) + noise, -1);
}

Tensor gumbel_softmax(const Tensor& logits, double tau, bool hard, int dim, Generator* generator) {
  constexpr const char* op = "gumbel_softmax";
  const profiler::OpRange range(op, logits);
  FERRITE_CHECK(logits.defined(), ValueError, op, "the logits are undefined");
  FERRITE_CHECK(is_floating(logits.dtype()), DTypeError, op, "expected a floating type, got {}",
                logits.describe());
  FERRITE_CHECK(tau > 0, ValueError, op, "tau: expected a number above 0, got {}", tau);
  const Tensor noise = no_grad([&] { return gumbel_like(logits, generator).to(logits.dtype()); });
  const Tensor soft = softmax((logits + noise) / tau, dim);
  if (!hard || soft.numel() == 0) return soft;
  const Tensor ones =
      no_grad([&] { return scatter(zeros_like(soft), dim, argmax(soft, dim, true), 1); });
  return ones - soft.detach() + soft;
}

}  // namespace ferrite
