#include "ferrite/ops/softmax.h"

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/softmax.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/reduced_dims.h"
#include "ferrite/ops/renamed.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using kernels::SoftmaxKind;

namespace {

/// `t` without gaps in `format`; itself if it is already.
Tensor dense(const Tensor& t, MemoryFormat format) {
  return no_grad([&] { return t.contiguous(format); });
}

Tensor gradient(SoftmaxKind kind, const Tensor& grad, const Tensor& y, int dim) {
  if (grad_enabled())  // create_graph: with differentiable ops
    return kind == SoftmaxKind::plain ? y * (grad - sum(grad * y, {dim}, true))
                                      : grad - exp(y) * sum(grad, {dim}, true);
  Tensor out = empty_like(y);
  kernels::softmax_backward(current_stream(y.device()), kind, out,
                            dense(grad, y.suggest_memory_format()), y, dim);
  return out;
}

Tensor compute(SoftmaxKind kind, const char* op, const Tensor& t, int dim,
               std::optional<DType> dtype) {
  FERRITE_CHECK(t.defined(), ValueError, op, "the input is undefined");
  const Tensor input = dtype ? t.to(*dtype) : t;
  FERRITE_CHECK(is_floating(input.dtype()), DTypeError, op, "expected a floating type, got {}",
                t.describe());
  dim = normalize_dim(dim, t.dim(), op);
  if (t.dim() == 0) return compute(kind, op, input.reshape({1}), 0, {}).reshape({});
  const Tensor x = dense(input, input.suggest_memory_format());
  Tensor out = empty_like(x);
  kernels::softmax(current_stream(x.device()), kind, out, x, dim);
  if (recording(input))
    record(out, op, {input}, [kind, y = Saved::output(out), dim](const Tensor& grad, Needs) {
      return gradient(kind, grad, y.get(), dim);
    });
  return out;
}

}  // namespace

Tensor softmax(const Tensor& t, int dim, std::optional<DType> dtype) {
  if (tracing::on())
    return tracing::op("softmax", {t}, {{"dim", std::int64_t{dim}}},
                       [&] { return softmax(t, dim, dtype); });
  const profiler::OpRange range("softmax", t);
  if (!dtype) dtype = ops::autocast_target(AutocastOp::softmax, t);
  return compute(SoftmaxKind::plain, "softmax", t, dim, dtype);
}

Tensor softmin(const Tensor& t, int dim, std::optional<DType> dtype) {
  const profiler::OpRange range("softmin", t);
  return ops::renamed("softmin", [&] { return softmax(neg(t), dim, dtype); });
}

Tensor log_softmax(const Tensor& t, int dim, std::optional<DType> dtype) {
  if (tracing::on())
    return tracing::op("log_softmax", {t}, {{"dim", std::int64_t{dim}}},
                       [&] { return log_softmax(t, dim, dtype); });
  const profiler::OpRange range("log_softmax", t);
  if (!dtype) dtype = ops::autocast_target(AutocastOp::log_softmax, t);
  return compute(SoftmaxKind::log, "log_softmax", t, dim, dtype);
}

}  // namespace ferrite
