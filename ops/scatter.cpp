// Writing by index, and the in-place forms (declared in ops/index.h).
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/index.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/indexing.h"
#include "ferrite/ops/inplace.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/views.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::record_inplace;
using autograd::recording;
using autograd::Saved;
using ops::accumulate;
using ops::at_least_1d;
using ops::check_1d;
using ops::check_fits;
using ops::check_like;
using ops::check_storable;
using ops::checked_index;
using ops::covered;
using ops::unaliased;

void ops::check_like(const Tensor& source, const Tensor& x, const char* op) {
  FERRITE_CHECK(source.defined(), ValueError, op, "the source is undefined");
  FERRITE_CHECK(source.dtype() == x.dtype(), DTypeError, op,
                "the tensor is {}, the source {}; convert one with to(dtype)", x.dtype(),
                source.dtype());
  FERRITE_CHECK(source.device() == x.device(), DeviceError, op,
                "the tensor is on {}, the source on {}; move one with to(device)", x.device(),
                source.device());
}

Tensor ops::covered(const Tensor& source, const Tensor& index) {
  if (index.numel() == 0) return source.flatten().narrow(0, 0, 0).reshape(index.shape());
  Tensor part = source;
  for (int d = 0; d < source.dim(); ++d)
    if (part.shape()[d] != index.shape()[d]) part = part.narrow(d, 0, index.shape()[d]);
  return part;
}

namespace {

/// A value as a source of the shape of `ids`, without using memory for it.
Tensor spread(Scalar value, const Tensor& x, const Tensor& ids) {
  const Tensor one = empty({}, {.dtype = x.dtype(), .device = x.device()});
  kernels::fill(current_stream(x.device()), one, value);
  return geometry::apply(one, geometry::expand(one, ids.shape()));
}

/// Adds into `self`; 16-bit types through float32.
template <class Add>
void accumulate_inplace(const Tensor& self, Add&& add) {
  if (ops::sum_type(self.dtype()) == self.dtype()) return add(self);
  kernels::copy(current_stream(self.device()), self,
                accumulate(self, self.shape(), self.dtype(), self.device(), add));
}

}  // namespace

// ---- scatter

namespace {

/// The gradients of x and of the source.
auto scatter_gradient(int dim, const Tensor& ids) {
  return [dim, ids = Saved(ids)](const Tensor& grad, Needs needs) -> Gradients {
    return {needs[0] ? scatter(grad, dim, ids.get(), 0) : Tensor(),
            needs[1] ? grad.gather(dim, ids.get()) : Tensor()};
  };
}
auto scatter_value_gradient(int dim, const Tensor& ids) {
  return [dim, ids = Saved(ids)](const Tensor& grad, Needs) {
    return scatter(grad, dim, ids.get(), 0);
  };
}

}  // namespace

Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
  if (const auto cast = ops::autocast(AutocastOp::scatter, x, source)) {
    const auto& [to, from] = *cast;
    return scatter(to, dim, index, from);
  }
  const profiler::OpRange range("scatter", x, index, source);
  const Tensor ids = checked_index(index, x, "scatter");
  check_like(source, x, "scatter");
  if (x.dim() == 0)
    return scatter(x.reshape({1}), dim, at_least_1d(ids), at_least_1d(source)).reshape({});
  const int d = normalize_dim(dim, x.dim(), "scatter");
  check_fits(ids, x, d, "a tensor", "scatter");
  check_fits(ids, source, -1, "a source", "scatter");
  const Tensor part = covered(source, ids);
  Tensor out = no_grad([&] { return x.clone(); });
  if (ids.numel() > 0) kernels::scatter(current_stream(out.device()), "scatter", out, ids, part, d);
  if (recording(x, part)) record(out, "scatter", {x, part}, scatter_gradient(d, ids));
  return out;
}

const Tensor& scatter_(const Tensor& self, int dim, const Tensor& index, const Tensor& source) {
  const profiler::OpRange range("scatter_", self, index, source);
  const Tensor ids = unaliased(checked_index(index, self, "scatter_"), self);
  check_like(source, self, "scatter_");
  if (self.dim() == 0) {
    scatter_(self.reshape({1}), dim, at_least_1d(ids), at_least_1d(source));
    return self;
  }
  const int d = normalize_dim(dim, self.dim(), "scatter_");
  check_fits(ids, self, d, "a tensor", "scatter_");
  check_fits(ids, source, -1, "a source", "scatter_");
  autograd::check_inplace(self, "scatter_");
  const Tensor part = covered(unaliased(source, self), ids);
  if (ids.numel() > 0)
    kernels::scatter(current_stream(self.device()), "scatter_", self, ids, part, d);
  autograd::changed_inplace(self, "scatter_");
  if (recording(self, part))
    record_inplace(self, "scatter_", {self, part}, scatter_gradient(d, ids));
  return self;
}

Tensor scatter(const Tensor& x, int dim, const Tensor& index, Scalar value) {
  const profiler::OpRange range("scatter", x, index);
  const Tensor ids = checked_index(index, x, "scatter");
  if (x.dim() == 0) return scatter(x.reshape({1}), dim, at_least_1d(ids), value).reshape({});
  const int d = normalize_dim(dim, x.dim(), "scatter");
  check_fits(ids, x, d, "a tensor", "scatter");
  check_storable(value, x.dtype(), "scatter");
  if (ids.numel() == 0) return x.clone();
  Tensor out = no_grad([&] { return x.clone(); });
  kernels::scatter(current_stream(x.device()), "scatter", out, ids, spread(value, x, ids), d);
  if (recording(x)) record(out, "scatter", {x}, scatter_value_gradient(d, ids));
  return out;
}

const Tensor& scatter_(const Tensor& self, int dim, const Tensor& index, Scalar value) {
  const profiler::OpRange range("scatter_", self, index);
  const Tensor ids = unaliased(checked_index(index, self, "scatter_"), self);
  if (self.dim() == 0) {
    scatter_(self.reshape({1}), dim, at_least_1d(ids), value);
    return self;
  }
  const int d = normalize_dim(dim, self.dim(), "scatter_");
  check_fits(ids, self, d, "a tensor", "scatter_");
  check_storable(value, self.dtype(), "scatter_");
  autograd::check_inplace(self, "scatter_");
  if (ids.numel() == 0) return self;
  kernels::scatter(current_stream(self.device()), "scatter_", self, ids, spread(value, self, ids),
                   d);
  autograd::changed_inplace(self, "scatter_");
  if (recording(self)) record_inplace(self, "scatter_", {self}, scatter_value_gradient(d, ids));
  return self;
}

// ---- scatter_add

namespace {

auto scatter_add_gradient(int dim, const Tensor& ids) {
  return [dim, ids = Saved(ids)](const Tensor& grad, Needs needs) -> Gradients {
    return {grad, needs[1] ? grad.gather(dim, ids.get()) : Tensor()};
  };
}

/// Adds `part` to the result of accumulate().
auto scatter_adder(const char* op, const Tensor& ids, const Tensor& part, int dim) {
  return [=](const Tensor& sum) {
    if (ids.numel() == 0) return;
    kernels::scatter_add(current_stream(sum.device()), op, sum, ids,
                         no_grad([&] { return part.to(sum.dtype()); }), dim);
  };
}

}  // namespace

Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
  if (const auto cast = ops::autocast(AutocastOp::scatter, x, source)) {
    const auto& [to, from] = *cast;
    return scatter_add(to, dim, index, from);
  }
  const profiler::OpRange range("scatter_add", x, index, source);
  const Tensor ids = checked_index(index, x, "scatter_add");
  check_like(source, x, "scatter_add");
  if (x.dim() == 0)
    return scatter_add(x.reshape({1}), dim, at_least_1d(ids), at_least_1d(source)).reshape({});
  const int d = normalize_dim(dim, x.dim(), "scatter_add");
  check_fits(ids, x, d, "a tensor", "scatter_add");
  check_fits(ids, source, -1, "a source", "scatter_add");
  const Tensor part = covered(source, ids);
  Tensor out =
      accumulate(x, x.shape(), x.dtype(), x.device(), scatter_adder("scatter_add", ids, part, d));
  if (recording(x, part)) record(out, "scatter_add", {x, part}, scatter_add_gradient(d, ids));
  return out;
}

const Tensor& scatter_add_(const Tensor& self, int dim, const Tensor& index, const Tensor& source) {
  const profiler::OpRange range("scatter_add_", self, index, source);
  const Tensor ids = unaliased(checked_index(index, self, "scatter_add_"), self);
  check_like(source, self, "scatter_add_");
  if (self.dim() == 0) {
    scatter_add_(self.reshape({1}), dim, at_least_1d(ids), at_least_1d(source));
    return self;
  }
  const int d = normalize_dim(dim, self.dim(), "scatter_add_");
  check_fits(ids, self, d, "a tensor", "scatter_add_");
  check_fits(ids, source, -1, "a source", "scatter_add_");
  autograd::check_inplace(self, "scatter_add_");
  const Tensor part = covered(unaliased(source, self), ids);
  accumulate_inplace(self, scatter_adder("scatter_add_", ids, part, d));
  autograd::changed_inplace(self, "scatter_add_");
  if (recording(self, part))
    record_inplace(self, "scatter_add_", {self, part}, scatter_add_gradient(d, ids));
  return self;
}

// ---- index_add

namespace {

struct Addition {
  Tensor ids, part;
  int dim;

  auto adder(const char* op, Scalar alpha) const {
    return [*this, op, alpha](const Tensor& sum) {
      const bool flags = part.dtype() == kBool;
      const Scalar factor = flags ? Scalar(alpha.to<bool>() ? 1 : 0) : alpha;
      kernels::index_add(current_stream(sum.device()), op, sum, ids,
                         flags ? part.to(sum.dtype()) : part, dim, factor);
    };
  }
  auto gradient(Scalar alpha) const {
    return [dim = dim, ids = Saved(ids), alpha](const Tensor& grad, Needs needs) -> Gradients {
      if (!needs[1]) return {grad, Tensor()};
      const Tensor slices = grad.index_select(dim, ids.get());
      const bool one = !alpha.is_complex() && alpha.to<double>() == 1;
      return {grad, one ? slices : slices * alpha};
    };
  }
};

/// `x` must have at least one dimension.
Addition addition(const Tensor& x, int dim, const Tensor& ids, const Tensor& source,
                  const char* op) {
  const int d = normalize_dim(dim, x.dim(), op);
  Shape expected = x.shape();
  expected[d] = ids.numel();
  const bool one_slice = source.dim() == 0 && expected.numel() == 1;
  FERRITE_CHECK(source.shape() == expected || one_slice, ShapeError, op,
                "expected a source of {} for {} indices, got {}", expected, ids.numel(),
                source.shape());
  return {ids, one_slice ? source.reshape(expected) : source, d};
}

Tensor checked_addition(const Tensor& x, const Tensor& index, const Tensor& source,
                        const char* op) {
  const Tensor ids = checked_index(index, x, op);
  check_1d(index, op);
  check_like(source, x, op);
  return at_least_1d(ids);
}

}  // namespace

Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                 Scalar alpha) {
  if (const auto cast = ops::autocast(AutocastOp::scatter, x, source)) {
    const auto& [to, from] = *cast;
    return index_add(to, dim, index, from, alpha);
  }
  const profiler::OpRange range("index_add", x, index, source);
  const Tensor ids = checked_addition(x, index, source, "index_add");
  if (x.dim() == 0)
    return index_add(x.reshape({1}), dim, ids, at_least_1d(source), alpha).reshape({});
  const Addition a = addition(x, dim, ids, source, "index_add");
  Tensor out = accumulate(x, x.shape(), x.dtype(), x.device(), a.adder("index_add", alpha));
  if (recording(x, a.part)) record(out, "index_add", {x, a.part}, a.gradient(alpha));
  return out;
}

const Tensor& index_add_(const Tensor& self, int dim, const Tensor& index, const Tensor& source,
                         Scalar alpha) {
  const profiler::OpRange range("index_add_", self, index, source);
  const Tensor ids = unaliased(checked_addition(self, index, source, "index_add_"), self);
  if (self.dim() == 0) {
    index_add_(self.reshape({1}), dim, ids, at_least_1d(source), alpha);
    return self;
  }
  const Addition a = addition(self, dim, ids, unaliased(source, self), "index_add_");
  autograd::check_inplace(self, "index_add_");
  accumulate_inplace(self, a.adder("index_add_", alpha));
  autograd::changed_inplace(self, "index_add_");
  if (recording(self, a.part))
    record_inplace(self, "index_add_", {self, a.part}, a.gradient(alpha));
  return self;
}

}  // namespace ferrite
