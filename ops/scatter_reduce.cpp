// scatter_reduce (declared in ops/place.h).
#include <limits>
#include <optional>

#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/index.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/indexing.h"
#include "ferrite/ops/inplace.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::recording;
using autograd::Saved;
using kernels::Scattered;

namespace {

using T = const Tensor&;

enum class Reduce : std::uint8_t { sum, prod, mean, amax, amin };

Reduce reduce_named(std::string_view name, const char* op) {
  constexpr std::pair<std::string_view, Reduce> kNames[] = {{"sum", Reduce::sum},
                                                            {"prod", Reduce::prod},
                                                            {"mean", Reduce::mean},
                                                            {"amax", Reduce::amax},
                                                            {"amin", Reduce::amin}};
  for (const auto& [text, reduce] : kNames)
    if (text == name) return reduce;
  fail<ValueError>(op, "expected sum, prod, mean, amax or amin, got \"{}\"", name);
}

/// What changes nothing: +-infinity, or the end of an integer type's range.
Scalar identity(Reduce reduce, DType dtype) {
  if (reduce == Reduce::prod) return 1;
  if (reduce != Reduce::amax && reduce != Reduce::amin) return 0;
  const bool low = reduce == Reduce::amax;
  if (is_floating(dtype)) return low ? -INFINITY : INFINITY;
  const auto end = [low]<class I>(I) {
    return Scalar(static_cast<std::int64_t>(low ? std::numeric_limits<I>::lowest()
                                                : std::numeric_limits<I>::max()));
  };
  switch (dtype) {
    case kUInt8:
      return end(std::uint8_t());
    case kInt8:
      return end(std::int8_t());
    case kInt16:
      return end(std::int16_t());
    case kInt32:
      return end(std::int32_t());
    default:
      return end(std::int64_t());
  }
}

/// A checked call, of a tensor that has dimensions.
struct Call {
  Tensor ids, source;  // of one shape
  int dim;
  Reduce reduce;
  bool include_self;

  /// [x's shape]: how many elements each place is made of.
  Tensor counts(T x) const {
    Tensor start = ones_like(x);
    if (!include_self) start = scatter(start, dim, ids, 0);
    return scatter_add(start, dim, ids, ones_like(source));
  }
  /// Writes the result into `out`, which holds x.
  void write(const char* op, T out) const {
    if (ids.numel() == 0) return;
    const Stream stream = current_stream(out.device());
    if (!include_self)
      kernels::scatter(stream, op, out, ids,
                       full({}, identity(reduce, out.dtype()), out.options()).expand(ids.shape()),
                       dim);
    const Tensor from = source.to(out.dtype());
    if (reduce == Reduce::sum || reduce == Reduce::mean)
      kernels::scatter_add(stream, op, out, ids, from, dim);
    else
      kernels::scatter_reduce(stream, op,
                              reduce == Reduce::prod   ? Scattered::prod
                              : reduce == Reduce::amax ? Scattered::max
                                                       : Scattered::min,
                              out, ids, from, dim);
  }
  Tensor result(const char* op, T x) const {
    return no_grad([&] {
      const Tensor out =
          ops::accumulate(x, x.shape(), x.dtype(), x.device(), [&](T sum) { write(op, sum); });
      if (reduce != Reduce::mean) return out;
      const Tensor n = clamp_min(counts(x), 1);
      return is_floating(x.dtype()) ? out / n : floor_divide(out, n);
    });
  }
  Gradients gradient(T grad, T x, T from, T out, Needs needs) const;
};

/// The product of all elements of each place but one: 0 beside a 0.
struct Products {
  Tensor zeros, others;  // the number of zeros, and the product of the rest
  Tensor sum;  // of the zeros: 0, with the gradient 1 for each; where gradients are recorded

  Products(const Call& c, T x, T from) {
    const Tensor x_zero = eq(x, 0), from_zero = eq(from, 0);
    const auto scatter_zeros = [&](T own, T others) {
      return scatter_add(c.include_self ? own : scatter(own, c.dim, c.ids, 0), c.dim, c.ids,
                         others);
    };
    zeros = scatter_zeros(x_zero.to(x.dtype()), from_zero.to(x.dtype()));
    if (recording(x, from)) sum = scatter_zeros(where(x_zero, x, 0), where(from_zero, from, 0));
    others = scatter_reduce(where(x_zero, 1, x), c.dim, c.ids, where(from_zero, 1, from), "prod",
                            c.include_self);
  }
  static Tensor without(T element, T zeros, T others, T sum) {
    const Tensor zero = eq(element, 0), one = eq(zeros, 1);
    const Tensor quotient = others / where(zero, 1, element);
    // With one zero among the others the product is 0, but its slope along that zero is not.
    const auto slopes = [&](T where_zeros, T of_zeros, T factor) {
      if (!sum.defined()) return zeros_like(quotient);
      return where(logical_and(where_zeros, isfinite(factor)), of_zeros * factor, 0);
    };
    const Tensor beside = slopes(one, sum, quotient),
                 of_two = slopes(eq(zeros, 2), sum.defined() ? sum - element : sum, others);
    return where(zero, where(one, others, of_two), where(eq(zeros, 0), quotient, beside));
  }
};

Gradients Call::gradient(T grad, T x, T from, T out, Needs needs) const {
  Tensor own = grad, each = grad;  // for x, and for the sources of a place
  Tensor own_factor, each_factor;
  const auto gathered = [&](T t) { return t.gather(dim, ids); };
  if (reduce == Reduce::mean) {
    own = each = grad / no_grad([&] { return clamp_min(counts(x), 1); });
  } else if (reduce == Reduce::prod) {
    const Products p(*this, x, from);
    own_factor = Products::without(x, p.zeros, p.others, p.sum);
    each_factor = Products::without(from, gathered(p.zeros), gathered(p.others),
                                    p.sum.defined() ? gathered(p.sum) : p.sum);
  } else if (reduce != Reduce::sum) {
    no_grad([&] {
      own_factor = eq(x, out).to(grad.dtype());
      each_factor = eq(from, gathered(out)).to(grad.dtype());
      const Tensor start = include_self ? own_factor : scatter(own_factor, dim, ids, 0);
      own = scatter_add(start, dim, ids, each_factor);  // how many share it
    });
    own = each = grad / clamp_min(own, 1);
  }
  Gradients result{Tensor(), Tensor()};
  if (needs[0]) {
    result[0] = own_factor.defined() ? own * own_factor : own;
    if (!include_self) result[0] = scatter(result[0], dim, ids, 0);
  }
  if (needs[1]) result[1] = each_factor.defined() ? gathered(each) * each_factor : gathered(each);
  return result;
}

Call checked_call(T x, int dim, T index, T source, std::string_view reduce, bool include_self,
                  const char* op) {
  const Tensor ids = ops::checked_index(index, x, op);
  ops::check_like(source, x, op);
  FERRITE_CHECK(x.dtype() != kBool, DTypeError, op,
                "does not work on bool; convert with to(dtype)");
  const int d = normalize_dim(dim, x.dim(), op);
  ops::check_fits(ids, x, d, "a tensor", op);
  ops::check_fits(ids, source, -1, "a source", op);
  return {ids, ops::covered(source, ids), d, reduce_named(reduce, op), include_self};
}

/// What backward needs: x and the sources where a product or an extremum does.
auto backward(const Call& c, T x, T out) {
  const bool keeps = c.reduce != Reduce::sum;
  return [ids = Saved(c.ids), source = keeps ? Saved(c.source) : Saved(),
          x = keeps ? Saved(x) : Saved(), out = keeps ? Saved::output(out) : Saved(), dim = c.dim,
          reduce = c.reduce, include_self = c.include_self](T grad, Needs needs) {
    const Tensor from = source.get();
    return Call{ids.get(), from, dim, reduce, include_self}.gradient(grad, x.get(), from, out.get(),
                                                                     needs);
  };
}

Tensor one_dimensional(T t) { return ops::at_least_1d(t); }

Tensor reduced(const char* op, T x, int dim, T index, T source, std::string_view reduce,
               bool include_self) {
  const profiler::OpRange range(op, x, index, source);
  if (x.defined() && index.defined() && source.defined() && x.dim() == 0)
    return reduced(op, x.reshape({1}), dim, one_dimensional(index), one_dimensional(source), reduce,
                   include_self)
        .reshape({});
  const Call c = checked_call(x, dim, index, source, reduce, include_self, op);
  const Tensor out = c.result(op, x);
  if (recording(x, c.source)) autograd::record(out, op, {x, c.source}, backward(c, x, out));
  return out;
}

const Tensor& reduce_(const char* op, T self, int dim, T index, T source, std::string_view reduce,
                      bool include_self) {
  const profiler::OpRange range(op, self, index, source);
  if (self.defined() && index.defined() && source.defined() && self.dim() == 0) {
    reduce_(op, self.reshape({1}), dim, one_dimensional(index), one_dimensional(source), reduce,
            include_self);
    return self;
  }
  const Call c = checked_call(self, dim, index, source, reduce, include_self, op);
  autograd::check_inplace(self, op);
  const bool records = recording(self, c.source), keeps = records && c.reduce != Reduce::sum;
  const Tensor before = keeps ? self.clone() : Tensor();
  const Call own{ops::unaliased(c.ids, self), ops::unaliased(c.source, self), c.dim, c.reduce,
                 c.include_self};
  kernels::copy(current_stream(self.device()), self, own.result(op, self));
  autograd::changed_inplace(self, op);
  if (records) autograd::record_inplace(self, op, {self, own.source}, backward(own, before, self));
  return self;
}

/// The index for scatter_reduce() that stands for an `index` of slices, which are checked.
Tensor of_slices(const char* op, T x, int dim, T index, T source, std::string_view reduce) {
  ops::check_defined(x, op);
  ops::check_defined(index, op);
  ops::check_defined(source, op);
  FERRITE_CHECK(reduce != "sum", ValueError, op,
                "expected prod, mean, amax or amin, got \"sum\"; use index_add");
  if (x.dim() == 0) return index;
  const int d = normalize_dim(dim, x.dim(), op);
  ops::check_1d(index, op);
  Shape sizes = x.shape(), ids = Shape::filled(x.dim(), 1);
  sizes[d] = ids[d] = index.numel();
  FERRITE_CHECK(source.shape() == sizes, ShapeError, op, "expected a source of shape {}, got {}",
                sizes, source.describe());
  return index.reshape(ids).expand(sizes);
}

}  // namespace

Tensor scatter_reduce(T x, int dim, T index, T source, std::string_view reduce, bool include_self) {
  return reduced("scatter_reduce", x, dim, index, source, reduce, include_self);
}
const Tensor& scatter_reduce_(T self, int dim, T index, T source, std::string_view reduce,
                              bool include_self) {
  return reduce_("scatter_reduce_", self, dim, index, source, reduce, include_self);
}

Tensor index_reduce(T x, int dim, T index, T source, std::string_view reduce, bool include_self) {
  const char* const op = "index_reduce";
  return reduced(op, x, dim, no_grad([&] { return of_slices(op, x, dim, index, source, reduce); }),
                 source, reduce, include_self);
}
const Tensor& index_reduce_(T self, int dim, T index, T source, std::string_view reduce,
                            bool include_self) {
  const char* const op = "index_reduce_";
  return reduce_(op, self, dim,
                 no_grad([&] { return of_slices(op, self, dim, index, source, reduce); }), source,
                 reduce, include_self);
}

}  // namespace ferrite
