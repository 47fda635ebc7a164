#include "ferrite/ops/dropout.h"

#include <cmath>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/dropout.h"
#include "ferrite/kernels/random.h"
#include "ferrite/kernels/unary.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"

namespace ferrite {

using autograd::Needs;

namespace {

void check(const Tensor& x, double p, const char* op) {
  FERRITE_CHECK(x.defined(), ValueError, op, "the tensor is undefined");
  FERRITE_CHECK(is_floating(x.dtype()), DTypeError, op, "expected a floating-point tensor, got {}",
                x.describe());
  FERRITE_CHECK(p >= 0 && p <= 1, ValueError, op, "expected a probability in [0, 1], got {}", p);
}

PhiloxState draw_for(const Tensor& x, Generator* generator) {
  Generator& g = generator ? *generator : default_generator(x.device());
  return g.reserve(kernels::random_blocks(x.numel(), kFloat32), current_stream(x.device()));
}

/// Linear in x, so that the gradient is the same function of the incoming gradient. The layout
/// determines the random number of each element.
Tensor drop(const Tensor& x, PhiloxState state, double p, MemoryFormat layout) {
  const Tensor in = no_grad([&] { return x.contiguous(layout); });
  Tensor out = empty_like(in, layout);
  kernels::dropout(current_stream(out.device()), out, in, state, p);
  if (autograd::recording(x))
    autograd::record(out, "dropout", {x},
                     [=](const Tensor& grad, Needs) { return drop(grad, state, p, layout); });
  return out;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("dropout", x);
  check(x, p, "dropout");
  if (!training || p == 0) return x;
  if (p == 1) return x * 0;
  const PhiloxState state = draw_for(x, generator);
  return drop(x, state, p, x.suggest_memory_format());
}

const Tensor& dropout_(const Tensor& self, double p, bool training, Generator* generator) {
  const profiler::OpRange range("dropout_", self);
  check(self, p, "dropout_");
  autograd::check_inplace(self, "dropout_");
  if (!training || p == 0) return self;
  if (p == 1) return self.mul_(0);
  const PhiloxState state = draw_for(self, generator);
  const MemoryFormat layout = self.suggest_memory_format();
  const Stream stream = current_stream(self.device());
  if (self.is_contiguous(layout))
    kernels::dropout(stream, self, self, state, p);
  else
    kernels::copy(stream, self, no_grad([&] { return drop(self, state, p, layout); }));
  autograd::changed_inplace(self, "dropout_");
  if (autograd::recording(self))
    autograd::record_inplace(self, "dropout_", {self}, [=](const Tensor& grad, Needs) {
      return drop(grad, state, p, layout);
    });
  return self;
}

namespace {

/// The first `features` dimensions index the features that are dropped or kept as a whole.
Tensor drop_features(const Tensor& x, int features, double p, bool training, Generator* generator) {
  if (!training || p == 0) return x;
  if (p == 1) return x * 0;
  Shape shape = Shape::filled(x.dim(), 1);
  for (int d = 0; d < features; ++d) shape[d] = x.shape()[d];
  return x * dropout(ones(shape, {.dtype = x.dtype(), .device = x.device()}), p, true, generator);
}

}  // namespace

Tensor feature_dropout(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("feature_dropout", x);
  check(x, p, "feature_dropout");
  FERRITE_CHECK(x.dim() >= 2, ShapeError, "feature_dropout", "expected [N, C, *], got {}",
                x.shape());
  return drop_features(x, 2, p, training, generator);
}

Tensor dropout1d(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("dropout1d", x);
  check(x, p, "dropout1d");
  FERRITE_CHECK(x.dim() == 2 || x.dim() == 3, ShapeError, "dropout1d",
                "expected [N, C, L] or [C, L], got {}", x.shape());
  return drop_features(x, x.dim() - 1, p, training, generator);
}

Tensor dropout2d(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("dropout2d", x);
  check(x, p, "dropout2d");
  FERRITE_CHECK(x.dim() == 3 || x.dim() == 4, ShapeError, "dropout2d",
                "expected [N, C, L] or [N, C, H, W], got {}", x.shape());
  return drop_features(x, 2, p, training, generator);
}

Tensor dropout3d(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("dropout3d", x);
  check(x, p, "dropout3d");
  FERRITE_CHECK(x.dim() == 4 || x.dim() == 5, ShapeError, "dropout3d",
                "expected [N, C, D, H, W] or [C, D, H, W], got {}", x.shape());
  return drop_features(x, x.dim() - 3, p, training, generator);
}

namespace {

/// Features as in drop_features().
Tensor drop_alpha(const Tensor& x, int features, double p, bool training, Generator* generator) {
  if (!training || p == 0) return x;
  if (p == 1) return x * 0;
  constexpr double kDropped = kernels::kSeluScale * kernels::kSeluAlpha;
  const double scale = 1 / std::sqrt((kDropped * kDropped * p + 1) * (1 - p));
  const Tensor drawn = drop_features(ones(x.shape(), {.dtype = x.dtype(), .device = x.device()}),
                                     features, p, true, generator);
  const Tensor kept = ne(drawn, 0);
  return where(kept, x * scale, -kDropped * scale) + kDropped * scale * p;
}

}  // namespace

Tensor alpha_dropout(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("alpha_dropout", x);
  check(x, p, "alpha_dropout");
  return drop_alpha(x, x.dim(), p, training, generator);
}

Tensor feature_alpha_dropout(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("feature_alpha_dropout", x);
  check(x, p, "feature_alpha_dropout");
  FERRITE_CHECK(x.dim() >= 2, ShapeError, "feature_alpha_dropout", "expected [N, C, *], got {}",
                x.shape());
  return drop_alpha(x, 2, p, training, generator);
}

}  // namespace ferrite
