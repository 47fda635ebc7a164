#include "ferrite/ops/place.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "ferrite/core/host_copy.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/index.h"
#include "ferrite/kernels/search.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/indexing.h"
#include "ferrite/ops/inplace.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::recording;
using autograd::Saved;
using ops::composite;
using ops::composite_;

namespace {
using T = const Tensor&;
}  // namespace

// ---- take_along_dim, take

Tensor take_along_dim(T x, T index, std::optional<int> dim) {
  return composite(
      "take_along_dim",
      [&] {
        const Tensor ids = ops::checked_index(index, x, "take_along_dim");
        if (!dim) return ops::gather(x.reshape({-1}), 0, ids.reshape({-1}), "take_along_dim");
        const int d = normalize_dim(*dim, x.dim(), "take_along_dim");
        FERRITE_CHECK(x.dim() == ids.dim(), ShapeError, "take_along_dim",
                      "expected an index of {} dimensions, got {}", x.dim(), ids.shape());
        if (x.dim() == 0) return ops::gather(x, 0, ids, "take_along_dim");
        Shape from = x.shape(), at = ids.shape();
        from[d] = at[d] = 1;
        from = at = broadcast_shapes(from, at, "take_along_dim");
        from[d] = x.size(d), at[d] = ids.size(d);
        return ops::gather(x.expand(from), d, ids.expand(at), "take_along_dim");
      },
      x, index);
}

Tensor take(T x, T index) {
  return composite(
      "take",
      [&] {
        const Tensor ids = ops::checked_index(index, x, "take").reshape({-1});
        const std::int64_t n = x.numel();
        const Tensor from_end = logical_and(lt(ids, 0), ge(ids, -n));
        const Tensor places = where(from_end, ids + n, ids);
        return ops::gather(x.reshape({-1}), 0, places, "take").reshape(index.shape());
      },
      x, index);
}

// ---- index_copy, index_fill

namespace {

/// A 1-dimensional index for slices of x, as one for its elements.
Tensor slices_at(T x, int dim, T index, const char* op) {
  const Tensor ids = ops::checked_index(index, x, op);
  ops::check_1d(index, op);
  Shape shape = x.shape(), one = Shape::filled(x.dim(), 1);
  shape[dim] = one[dim] = ids.numel();
  return ids.reshape(one).expand(shape);
}

void copy_slices(const char* op, T out, int dim, T ids, T source) {
  if (ids.numel() > 0) kernels::scatter(current_stream(out.device()), op, out, ids, source, dim);
}

Tensor number_like(T x, Scalar value, const Shape& shape) {
  return full({}, value, {.dtype = x.dtype(), .device = x.device()}).expand(shape);
}

/// The gradients of x and of the source.
auto slices_gradient(int dim, T ids) {
  return [dim, ids = Saved(ids)](T grad, Needs needs) -> Gradients {
    return {needs[0] ? scatter(grad, dim, ids.get(), 0) : Tensor(),
            needs[1] ? grad.gather(dim, ids.get()) : Tensor()};
  };
}

struct Slices {
  Tensor ids, source;
  int dim;

  Slices(T x, int dim_of_x, T index, T from, const char* op) {
    ops::check_like(from, x, op);
    dim = normalize_dim(dim_of_x, x.dim(), op);
    ids = slices_at(x, dim, index, op);
    FERRITE_CHECK(from.shape() == ids.shape(), ShapeError, op, "expected a source of {}, got {}",
                  ids.shape(), from.shape());
    source = from;
  }
};

Tensor at_least_1d_source(T source, T x) { return x.dim() == 0 ? source.reshape({1}) : source; }

}  // namespace

Tensor index_copy(T x, int dim, T index, T source) {
  return composite(
      "index_copy",
      [&] {
        if (x.dim() == 0)
          return index_copy(x.reshape({1}), dim, index, at_least_1d_source(source, x)).reshape({});
        const Slices s(x, dim, index, source, "index_copy");
        Tensor out = no_grad([&] { return x.clone(); });
        copy_slices("index_copy", out, s.dim, s.ids, s.source);
        if (recording(x, source))
          autograd::record(out, "index_copy", {x, source}, slices_gradient(s.dim, s.ids));
        return out;
      },
      x, index, source);
}

const Tensor& index_copy_(T self, int dim, T index, T source) {
  composite(
      "index_copy_",
      [&] {
        if (self.dim() == 0)
          return void(index_copy_(self.reshape({1}), dim, index, at_least_1d_source(source, self)));
        const Slices s(self, dim, ops::unaliased(index, self), ops::unaliased(source, self),
                       "index_copy_");
        autograd::check_inplace(self, "index_copy_");
        copy_slices("index_copy_", self, s.dim, s.ids, s.source);
        autograd::changed_inplace(self, "index_copy_");
        if (recording(self, s.source))
          autograd::record_inplace(self, "index_copy_", {self, s.source},
                                   slices_gradient(s.dim, s.ids));
      },
      self, index, source);
  return self;
}

namespace {

template <class Copy>
decltype(auto) filled(const char* op, T x, int dim, T index, Scalar value, Copy copy) {
  const int d = normalize_dim(dim, x.dim(), op);
  const Tensor ids = ops::checked_index(index, x, op);
  ops::check_1d(index, op);
  ops::check_storable(value, x.dtype(), op);
  Shape shape = x.shape();
  if (x.dim() > 0) shape[d] = ids.numel();
  return copy(d, ids, number_like(x, value, shape));
}

}  // namespace

Tensor index_fill(T x, int dim, T index, Scalar value) {
  return composite(
      "index_fill",
      [&] {
        return filled("index_fill", x, dim, index, value, [&](int d, T ids, T source) {
          if (x.dim() == 0) return index_fill(x.reshape({1}), 0, ids, value).reshape({});
          Tensor out = no_grad([&] { return x.clone(); });
          const Tensor places = slices_at(x, d, ids, "index_fill");
          copy_slices("index_fill", out, d, places, source);
          if (recording(x))
            autograd::record(out, "index_fill", {x}, [d, at = Saved(places)](T grad, Needs) {
              return scatter(grad, d, at.get(), 0);
            });
          return out;
        });
      },
      x, index);
}

const Tensor& index_fill_(T self, int dim, T index, Scalar value) {
  composite(
      "index_fill_",
      [&] {
        filled("index_fill_", self, dim, ops::unaliased(index, self), value,
               [&](int d, T ids, T source) {
                 if (self.dim() == 0) return void(index_fill_(self.reshape({1}), 0, ids, value));
                 autograd::check_inplace(self, "index_fill_");
                 const Tensor places = slices_at(self, d, ids, "index_fill_");
                 copy_slices("index_fill_", self, d, places, source);
                 autograd::changed_inplace(self, "index_fill_");
                 if (recording(self))
                   autograd::record_inplace(self, "index_fill_", {self},
                                            [d, at = Saved(places)](T grad, Needs) {
                                              return scatter(grad, d, at.get(), 0);
                                            });
               });
      },
      self, index);
  return self;
}

// ---- masked_scatter

namespace {

Tensor masked(T x, T mask, T source, const char* op) {
  ops::check_like(source, x, op);
  FERRITE_CHECK(mask.dtype() == kBool, DTypeError, op, "expected a bool mask, got {}",
                mask.describe());
  ops::check_same_device(x, mask, op);
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), op);
  if (shape.numel() == 0)
    return where(mask, source.reshape({-1}).slice(0, 0, 0).reshape(shape), x.expand(shape));
  if (source.numel() == 0) {
    ferrite::detail::check_may_read(mask.device(), op);
    FERRITE_CHECK(!any(mask).item<bool>(), ValueError, op,
                  "the source of {} has no elements for those that the mask chooses",
                  source.shape());
    return x.expand(shape).clone();
  }
  const Tensor places = no_grad([&] {
    const Tensor flat = mask.to(x.device()).expand(shape).reshape({-1});
    return where(flat, cumsum(flat, 0) - 1, 0);
  });
  const Tensor values = ops::gather(source.reshape({-1}), 0, places, op).reshape(shape);
  return where(mask, values, x.expand(shape));
}

}  // namespace

Tensor masked_scatter(T x, T mask, T source) {
  return composite(
      "masked_scatter", [&] { return masked(x, mask, source, "masked_scatter"); }, x, mask, source);
}
const Tensor& masked_scatter_(T self, T mask, T source) {
  return composite_(
      "masked_scatter_", self, [&](T x) { return masked(x, mask, source, "masked_scatter_"); },
      mask, source);
}

// ---- Looking for places

Tensor searchsorted(T sorted, T values, const SearchOptions& options) {
  if (tracing::on())
    return tracing::op("searchsorted", {sorted, values}, {{"right", options.right}},
                       [&] { return searchsorted(sorted, values, options); });
  return composite(
      "searchsorted",
      [&] {
        ops::check_same_device(sorted, values, "searchsorted");
        ops::check_real(sorted, "searchsorted");
        ops::check_real(values, "searchsorted");
        const NoGradGuard guard;
        // Integers that a float32 cannot tell apart stay different.
        const bool mixed = is_floating(sorted.dtype()) != is_floating(values.dtype());
        const DType dtype = mixed ? kFloat64 : ops::result_type(sorted, values);
        const bool one = sorted.dim() == 1;
        bool fits = sorted.dim() > 0 && (one || sorted.dim() == values.dim());
        for (int d = 0; !one && fits && d < sorted.dim() - 1; ++d)
          fits = sorted.size(d) == values.size(d);
        FERRITE_CHECK(fits, ShapeError, "searchsorted",
                      "rows of {} for values of {}: expected one row, or one for each row of "
                      "values",
                      sorted.shape(), values.shape());
        const std::int64_t size = sorted.size(-1);
        const std::int64_t rows =
            one ? 1 : Shape(std::span(sorted.shape().begin(), sorted.shape().end() - 1)).numel();
        const std::int64_t m = rows == 0 ? 0 : values.numel() / rows;
        const Tensor at = values.to(sorted.device(), dtype).contiguous();
        const Tensor out = empty({rows, m}, {.dtype = kInt64, .device = sorted.device()});
        kernels::search(current_stream(out.device()), out,
                        sorted.to(dtype).contiguous().reshape({rows, size}), at.reshape({rows, m}),
                        options.right);
        const Tensor places = out.reshape(values.shape());
        return options.out_int32 ? places.to(kInt32) : places;
      },
      sorted, values);
}
namespace {

/// The smallest and the largest integer of a dtype.
std::pair<std::int64_t, std::int64_t> limits_of(DType dtype) {
  using Limits = std::pair<std::int64_t, std::int64_t>;
  return dispatch_integral(
             dtype, "searchsorted",
             []<class T>() -> std::optional<Limits> {
               return Limits{std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
             })
      .value();
}

}  // namespace

Tensor searchsorted(T sorted, Scalar value, const SearchOptions& options) {
  ops::check_defined(sorted, "searchsorted");
  const TensorOptions like{.dtype = sorted.dtype(), .device = sorted.device()};
  const double v = value.to<double>();
  if (is_integral(sorted.dtype()) && !std::isnan(v)) {
    const auto [least, most] = limits_of(sorted.dtype());
    const bool whole = !value.is_floating();
    SearchOptions by = options;
    std::int64_t at = 0;
    if (whole ? value.to<std::int64_t>() > most : v >= static_cast<double>(most) + 1) {
      at = most, by.right = true;  // behind all of them
    } else if (whole ? value.to<std::int64_t>() < least : v < static_cast<double>(least)) {
      at = least, by.right = false;
    } else {
      at = whole ? value.to<std::int64_t>() : static_cast<std::int64_t>(std::floor(v));
      // Between two integers: behind all that are not above the lower one.
      if (!whole && v != std::floor(v)) by.right = true;
    }
    return searchsorted(sorted, full({}, at, like), by);
  }
  return searchsorted(sorted, full({}, value, like), options);
}
Tensor bucketize(T values, T boundaries, const SearchOptions& options) {
  return composite(
      "bucketize",
      [&] {
        FERRITE_CHECK(boundaries.dim() == 1, ShapeError, "bucketize",
                      "expected boundaries of 1 dimension, got {}", boundaries.shape());
        return searchsorted(boundaries, values, options);
      },
      values, boundaries);
}

Tensor isin(T elements, T test, bool invert) {
  return composite(
      "isin",
      [&] {
        ops::check_same_device(elements, test, "isin");
        const NoGradGuard guard;
        const DType dtype = ops::result_type(elements, test);
        const Device device = elements.dim() == 0 ? test.device() : elements.device();
        const Tensor x = elements.to(device, dtype).contiguous();
        if (test.numel() == 0) return full(x.shape(), invert, {.dtype = kBool, .device = device});
        const Tensor row = sort(test.to(device, dtype).reshape({-1})).values;
        const Tensor places = searchsorted(row, x);
        const Tensor at = clamp_max(places, test.numel() - 1).reshape({-1});
        const Tensor found = eq(row.gather(0, at).reshape(x.shape()), x);
        return invert ? logical_not(found) : found;
      },
      elements, test);
}

// ---- unique

namespace {

/// x as rows [n, m] of slices along `dim`, or of single elements.
Tensor as_rows(T x, std::optional<int> dim, const char* op) {
  if (!dim) return x.reshape({x.numel(), 1});
  const int d = normalize_dim(*dim, x.dim(), op);
  FERRITE_CHECK(x.dim() > 0, ShapeError, op, "a tensor of no dimensions has no slices");
  const Tensor first = movedim(x, d, 0);
  const std::int64_t n = x.size(d);
  return first.reshape({n, n == 0 ? 0 : x.numel() / n});
}

/// Groups of equal neighbours among the rows.
struct Groups {
  Tensor first;   // the row where each group begins
  Tensor member;  // the group of each row
  std::int64_t rows;

  explicit Groups(T sorted) : rows(sorted.size(0)) {
    const Tensor begins = ones({rows}, {.dtype = kBool, .device = sorted.device()});
    if (rows > 1)
      begins.narrow(0, 1, rows - 1)
          .copy_(any(ne(sorted.narrow(0, 1, rows - 1), sorted.narrow(0, 0, rows - 1)), 1));
    first = nonzero(begins).select(1, 0);
    member = cumsum(begins, 0) - 1;
  }
  Tensor counts() const {
    const Tensor end = full({1}, rows, {.dtype = kInt64, .device = first.device()});
    return diff(first, 1, 0, {}, end);
  }
};

/// The rows in lexicographic order: sorted by one column after the other, the first one last.
Tensor lexicographic(T rows) {
  Tensor order = arange(rows.size(0), {.dtype = kInt64, .device = rows.device()});
  for (std::int64_t c = rows.size(1); c-- > 0;) {
    const Tensor column = rows.select(1, c).index_select(0, order);
    order = order.index_select(0, argsort(column, 0));
  }
  return order;
}

Unique find_unique(const char* op, T x, const UniqueOptions& options, bool sorts) {
  ferrite::detail::check_may_read(x.device(), op);
  const NoGradGuard guard;
  const Tensor rows = as_rows(x, options.dim, op);
  const Tensor order = sorts ? lexicographic(rows) : Tensor();
  const Groups groups(sorts ? rows.index_select(0, order) : rows);
  Unique result;
  const Tensor chosen = sorts ? order.index_select(0, groups.first) : groups.first;
  result.values =
      options.dim ? x.index_select(*options.dim, chosen) : x.reshape({-1}).index_select(0, chosen);
  if (options.return_inverse) {
    result.inverse = sorts ? scatter(groups.member, 0, order, groups.member) : groups.member;
    if (!options.dim) result.inverse = result.inverse.reshape(x.shape());
  }
  if (options.return_counts) result.counts = groups.counts();
  return result;
}

}  // namespace

Unique unique(T x, const UniqueOptions& options) {
  return composite(
      "unique", [&] { return find_unique("unique", x, options, true); }, x);
}
Unique unique_consecutive(T x, const UniqueOptions& options) {
  return composite(
      "unique_consecutive", [&] { return find_unique("unique_consecutive", x, options, false); },
      x);
}

// ---- multinomial

namespace {

/// Of weights [*, k], float64 and contiguous. Those of other devices are not looked at, which would
/// wait for the device.
void check_category_weights(T weights) {
  if (!weights.device().is_host()) return;
  const std::int64_t k = weights.size(-1);
  const double* w = weights.data<double>();
  for (const double* const end = w + weights.numel(); w != end; w += k) {
    double total = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      FERRITE_CHECK(w[i] >= 0 && std::isfinite(w[i]), ValueError, "multinomial",
                    "expected finite weights of 0 or more, got {}", w[i]);
      total += w[i];
    }
    FERRITE_CHECK(total > 0, ValueError, "multinomial",
                  "expected a weight above 0 in each row, got only zeros");
  }
}

}  // namespace

Tensor multinomial(T p, std::int64_t num_samples, bool replacement, Generator* generator) {
  return composite(
      "multinomial",
      [&] {
        const NoGradGuard guard;
        ops::check_floating("multinomial", p);
        FERRITE_CHECK((p.dim() == 1 || p.dim() == 2) && p.size(-1) > 0, ShapeError, "multinomial",
                      "expected weights of [k] or [n, k], got {}", p.shape());
        FERRITE_CHECK(num_samples > 0 && (replacement || num_samples <= p.size(-1)), ValueError,
                      "multinomial", "expected from 1 to {} samples, got {}",
                      replacement ? "any number of" : std::to_string(p.size(-1)), num_samples);
        const Tensor weights = p.to(kFloat64).contiguous();
        check_category_weights(weights);
        if (!replacement) {
          // The smallest of independent exponential times, each with its weight as the rate.
          const Tensor times = clamp_min(neg(log1p(neg(rand_like(weights, generator)))), 1e-300);
          return topk(weights / times, num_samples, -1).indices;
        }
        const Tensor sums = cumsum(weights, -1);
        Shape shape = p.shape();
        shape[shape.size() - 1] = num_samples;
        const Tensor draws = rand(shape, {.dtype = kFloat64, .device = p.device()}, generator) *
                             sums.narrow(-1, p.size(-1) - 1, 1);
        return clamp_max(searchsorted(sums, draws, {.right = true}), p.size(-1) - 1);
      },
      p);
}

}  // namespace ferrite
