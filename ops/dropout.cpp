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
  if (!training || p == 0) return self;
  autograd::check_inplace(self, "dropout_");
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

// ---- Of whole features, which the first dimensions index

namespace {

int features_of_any(const Tensor& x, double p, const char* op) {
  check(x, p, op);
  FERRITE_CHECK(x.dim() >= 2, ShapeError, op, "expected [N, C, *], got {}", x.shape());
  return 2;
}

int features_1d(const Tensor& x, double p, const char* op) {
  check(x, p, op);
  FERRITE_CHECK(x.dim() == 2 || x.dim() == 3, ShapeError, op,
                "expected [N, C, L] or [C, L], got {}", x.shape());
  return x.dim() - 1;
}

int features_2d(const Tensor& x, double p, const char* op) {
  check(x, p, op);
  FERRITE_CHECK(x.dim() == 3 || x.dim() == 4, ShapeError, op,
                "expected [N, C, L] or [N, C, H, W], got {}", x.shape());
  return 2;
}

int features_3d(const Tensor& x, double p, const char* op) {
  check(x, p, op);
  FERRITE_CHECK(x.dim() == 4 || x.dim() == 5, ShapeError, op,
                "expected [N, C, D, H, W] or [C, D, H, W], got {}", x.shape());
  return x.dim() - 3;
}

/// Every element is a feature.
int features_all(const Tensor& x, double p, const char* op) {
  check(x, p, op);
  return x.dim();
}

/// 0 for features of x that are dropped, 1 / (1 - p) for others.
Tensor draw_features(const Tensor& x, int features, double p, Generator* generator) {
  Shape shape = Shape::filled(x.dim(), 1);
  for (int d = 0; d < features; ++d) shape[d] = x.shape()[d];
  return dropout(ones(shape, {.dtype = x.dtype(), .device = x.device()}), p, true, generator);
}

Tensor drop_features(const Tensor& x, int features, double p, bool training, Generator* generator) {
  if (!training || p == 0) return x;
  return p == 1 ? x * 0 : x * draw_features(x, features, p, generator);
}
const Tensor& drop_features_(const char* op, const Tensor& self, int features, double p,
                             bool training, Generator* generator) {
  if (!training || p == 0) return self;
  autograd::check_inplace(self, op);
  return p == 1 ? self.mul_(0) : self.mul_(draw_features(self, features, p, generator));
}

/// The dropped value of alpha dropout, and by what all values are scaled and shifted.
struct AlphaValues {
  explicit AlphaValues(double p)
      : scale(1 / std::sqrt((kLimit * kLimit * p + 1) * (1 - p))),
        dropped(-kLimit * scale),
        shift(kLimit * scale * p) {}
  static constexpr double kLimit = kernels::kSeluScale * kernels::kSeluAlpha;
  double scale, dropped, shift;
};

Tensor drop_alpha(const Tensor& x, int features, double p, bool training, Generator* generator) {
  if (!training || p == 0) return x;
  if (p == 1) return x * 0;
  const AlphaValues v(p);
  const Tensor kept = ne(draw_features(x, features, p, generator), 0);
  return where(kept, x * v.scale, v.dropped) + v.shift;
}
const Tensor& drop_alpha_(const char* op, const Tensor& self, int features, double p, bool training,
                          Generator* generator) {
  if (!training || p == 0) return self;
  autograd::check_inplace(self, op);
  if (p == 1) return self.mul_(0);
  const AlphaValues v(p);
  const Tensor lost = eq(draw_features(self, features, p, generator), 0);
  return self.mul_(v.scale).masked_fill_(lost, v.dropped).add_(v.shift);
}

}  // namespace

Tensor feature_dropout(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("feature_dropout", x);
  return drop_features(x, features_of_any(x, p, "feature_dropout"), p, training, generator);
}
const Tensor& feature_dropout_(const Tensor& self, double p, bool training, Generator* generator) {
  const profiler::OpRange range("feature_dropout_", self);
  return drop_features_("feature_dropout_", self, features_of_any(self, p, "feature_dropout_"), p,
                        training, generator);
}

Tensor dropout1d(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("dropout1d", x);
  return drop_features(x, features_1d(x, p, "dropout1d"), p, training, generator);
}
const Tensor& dropout1d_(const Tensor& self, double p, bool training, Generator* generator) {
  const profiler::OpRange range("dropout1d_", self);
  return drop_features_("dropout1d_", self, features_1d(self, p, "dropout1d_"), p, training,
                        generator);
}

Tensor dropout2d(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("dropout2d", x);
  return drop_features(x, features_2d(x, p, "dropout2d"), p, training, generator);
}
const Tensor& dropout2d_(const Tensor& self, double p, bool training, Generator* generator) {
  const profiler::OpRange range("dropout2d_", self);
  return drop_features_("dropout2d_", self, features_2d(self, p, "dropout2d_"), p, training,
                        generator);
}

Tensor dropout3d(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("dropout3d", x);
  return drop_features(x, features_3d(x, p, "dropout3d"), p, training, generator);
}
const Tensor& dropout3d_(const Tensor& self, double p, bool training, Generator* generator) {
  const profiler::OpRange range("dropout3d_", self);
  return drop_features_("dropout3d_", self, features_3d(self, p, "dropout3d_"), p, training,
                        generator);
}

Tensor alpha_dropout(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("alpha_dropout", x);
  return drop_alpha(x, features_all(x, p, "alpha_dropout"), p, training, generator);
}
const Tensor& alpha_dropout_(const Tensor& self, double p, bool training, Generator* generator) {
  const profiler::OpRange range("alpha_dropout_", self);
  return drop_alpha_("alpha_dropout_", self, features_all(self, p, "alpha_dropout_"), p, training,
                     generator);
}

Tensor feature_alpha_dropout(const Tensor& x, double p, bool training, Generator* generator) {
  const profiler::OpRange range("feature_alpha_dropout", x);
  return drop_alpha(x, features_of_any(x, p, "feature_alpha_dropout"), p, training, generator);
}
const Tensor& feature_alpha_dropout_(const Tensor& self, double p, bool training,
                                     Generator* generator) {
  const profiler::OpRange range("feature_alpha_dropout_", self);
  return drop_alpha_("feature_alpha_dropout_", self,
                     features_of_any(self, p, "feature_alpha_dropout_"), p, training, generator);
}

}  // namespace ferrite
