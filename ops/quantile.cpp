#include "ferrite/ops/quantile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/host_copy.h"
#include "ferrite/kernels/search.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/blend.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite {

using ops::composite;

namespace {

using T = const Tensor&;

/// A row in sorted order along the last dimension, which every tensor here has.
struct Sorted {
  Tensor values, indices;
  std::int64_t size;

  Sorted(T t, int dim, const char* op) {
    const int d = normalize_dim(dim, t.dim(), op);
    const Tensor last = t.dim() == 0 ? t.reshape({1}) : t.transpose(d, -1);
    size = last.size(-1);
    FERRITE_CHECK(size > 0, ValueError, op, "dimension {} of {} has no elements", dim,
                  t.describe());
    auto [v, i] = sort(last, -1);
    values = v, indices = i;
  }
  /// [..., 1]: the number of elements that are no NaN.
  Tensor count() const {
    return no_grad([&] { return sum(logical_not(isnan(values)), -1, true); });
  }
  Tensor has_nan() const { return isnan(values.narrow(-1, size - 1, 1)); }
  /// The elements of these ranks [..., 1], off the last dimension.
  ValuesIndices at(T ranks, int dim, bool keepdim, T input) const {
    return {placed(values.gather(-1, ranks), dim, keepdim, input),
            placed(indices.gather(-1, ranks), dim, keepdim, input)};
  }
  static Tensor placed(T picked, int dim, bool keepdim, T input) {
    if (input.dim() == 0) return picked.reshape({});
    const Tensor back = picked.transpose(normalize_dim(dim, input.dim(), "sort"), -1);
    return (keepdim ? back : back.squeeze(dim)).contiguous();
  }
};

/// The median of the elements that count.
ValuesIndices middle(T t, int dim, bool keepdim, bool skips_nan, const char* op) {
  const Sorted s(t, dim, op);
  const Tensor ranks = no_grad([&] {
    const Tensor count = s.count();
    const Tensor half = floor_divide(clamp_min(count - 1, 0), 2);
    return skips_nan ? half : where(lt(count, s.size), s.size - 1, half);
  });
  return s.at(ranks, dim, keepdim, t);
}

/// The same of all elements; those equal to it share the gradient.
Tensor middle_of_all(T t, bool skips_nan, const char* op) {
  FERRITE_CHECK(t.numel() > 0, ValueError, op, "{} has no elements", t.describe());
  Tensor out =
      no_grad([&] { return middle(t.reshape({-1}), 0, false, skips_nan, op).values.clone(); });
  if (autograd::recording(t))
    autograd::record(
        out, op, {t},
        [x = autograd::Saved(t), y = autograd::Saved::output(out)](T grad, autograd::Needs) {
          const Tensor shares = no_grad([&] {
            const Tensor a = x.get(), b = y.get();
            const Tensor same = logical_or(eq(a, b), logical_and(isnan(a), isnan(b)));
            return same.to(a.dtype()) / sum(same).to(a.dtype());
          });
          return shares * grad;
        });
  return out;
}

}  // namespace

Tensor median(T t) {
  return composite(
      "median", [&] { return middle_of_all(t, false, "median"); }, t);
}
ValuesIndices median(T t, int dim, bool keepdim) {
  return composite(
      "median", [&] { return middle(t, dim, keepdim, false, "median"); }, t);
}
Tensor nanmedian(T t) {
  return composite(
      "nanmedian", [&] { return middle_of_all(t, true, "nanmedian"); }, t);
}
ValuesIndices nanmedian(T t, int dim, bool keepdim) {
  return composite(
      "nanmedian", [&] { return middle(t, dim, keepdim, true, "nanmedian"); }, t);
}

ValuesIndices kthvalue(T t, std::int64_t k, int dim, bool keepdim) {
  return composite(
      "kthvalue",
      [&] {
        const int d = normalize_dim(dim, t.dim(), "kthvalue");
        const std::int64_t size = t.dim() == 0 ? 1 : t.size(d);
        FERRITE_CHECK(k >= 1 && k <= size, ValueError, "kthvalue",
                      "expected k from 1 to {}, got {}", size, k);
        const auto [values, indices] = topk(t, k, d, false);
        if (t.dim() == 0) return ValuesIndices{values, indices};
        const auto last = [&](T of) {
          return (keepdim ? of.narrow(d, k - 1, 1) : of.select(d, k - 1)).contiguous();
        };
        return ValuesIndices{last(values), last(indices)};
      },
      t);
}

ValuesIndices mode(T t, int dim, bool keepdim) {
  return composite(
      "mode",
      [&] {
        const Sorted s(t, dim, "mode");
        const Tensor ranks = no_grad([&] {
          const Tensor rows = s.values.reshape({-1, s.size}).contiguous();
          const auto places = [&](bool right) {
            const Tensor out = empty(rows.shape(), {.dtype = kInt64, .device = t.device()});
            kernels::search(current_stream(t.device()), out, rows, rows, right);
            return out;
          };
          const Tensor end = places(true), most = argmax(end - places(false), 1, true);
          Shape shape = s.values.shape();
          shape[shape.size() - 1] = 1;
          return (end.gather(1, most) - 1).reshape(shape);
        });
        return s.at(ranks, dim, keepdim, t);
      },
      t);
}

// ---- Quantiles

namespace {

/// The elements of ranks [..., k], which may be fractions.
Tensor between(T sorted, T ranks, Interpolation how) {
  const auto at = [&](T places) { return sorted.gather(-1, places.to(kInt64)); };
  switch (how) {
    case Interpolation::lower:
      return at(floor(ranks));
    case Interpolation::higher:
      return at(ceil(ranks));
    case Interpolation::nearest:
      return at(round(ranks));
    default:
      break;
  }
  const Tensor below = floor(ranks);
  const Tensor low = at(below), high = at(ceil(ranks));
  if (how == Interpolation::midpoint) return lerp(low, high, 0.5);
  return lerp(low, high, (ranks - below).to(sorted.dtype()));
}

Tensor quantiles(T t, T q, std::optional<int> dim, bool keepdim, Interpolation how, bool skips_nan,
                 const char* op) {
  FERRITE_CHECK(is_floating(t.dtype()) && is_floating(q.dtype()), DTypeError, op,
                "expected floating types, got {} and {}", t.dtype(), q.dtype());
  FERRITE_CHECK(q.dim() <= 1, ShapeError, op, "expected q of 1 dimension or none, got {}",
                q.shape());
  FERRITE_CHECK(q.device() == t.device() || q.dim() == 0, DeviceError, op,
                "the tensor is on {}, q on {}; move one with to(device)", t.device(), q.device());
  const Tensor flat = dim ? t : t.reshape({-1});
  const int d = dim.value_or(0);
  const Sorted s(flat, d, op);
  const Tensor ranks = no_grad([&] {
    // float32 has all ranks up to 2^24.
    const DType wide = s.size > (1 << 24) || t.dtype() == kFloat64 ? kFloat64 : kFloat32;
    const Tensor last =
        (skips_nan ? clamp_min(s.count() - 1, 0) : full_like(s.count(), s.size - 1)).to(wide);
    const Tensor wanted = last * clamp(q.to(wide), 0, 1).to(t.device());
    return skips_nan ? wanted : where(s.has_nan(), static_cast<double>(s.size - 1), wanted);
  });
  Tensor out = between(s.values, ranks, how);  // [..., k]
  if (q.dim() == 0) {
    out = Sorted::placed(out, d, keepdim, flat);
    return !dim && keepdim ? out.reshape(Shape::filled(t.dim(), 1)) : out;
  }
  // The quantiles first, and the dimension back in its place.
  const int place = normalize_dim(d, flat.dim(), op);
  out = out.unsqueeze(0).transpose(0, -1);
  if (flat.dim() > 0) out = out.transpose(place + 1, -1);
  if (flat.dim() == 0 || !keepdim) out = out.squeeze(place + 1);
  if (dim || !keepdim) return out;
  Shape shape = Shape::filled(t.dim(), 1);
  shape.insert(0, out.size(0));
  return out.reshape(shape);
}

/// A q of another device is not looked at, which would wait for the device.
void check_levels(T q, const char* op) {
  if (!q.device().is_host() || !is_floating(q.dtype())) return;
  const NoGradGuard guard;
  const Tensor levels = q.to(kFloat64).contiguous();
  for (const double level :
       std::span(levels.data<double>(), static_cast<std::size_t>(levels.numel())))
    FERRITE_CHECK(!std::isnan(level), ValueError, op, "expected a q from 0 to 1, got {}", level);
}

Tensor one_quantile(T t, double q, std::optional<int> dim, bool keepdim, Interpolation how,
                    bool skips_nan, const char* op) {
  FERRITE_CHECK(q >= 0 && q <= 1, ValueError, op, "expected q from 0 to 1, got {}", q);
  const TensorOptions like{.dtype = kFloat64, .device = t.device()};
  return quantiles(t, full({}, q, like), dim, keepdim, how, skips_nan, op);
}

}  // namespace

Tensor quantile(T t, double q, std::optional<int> dim, bool keepdim, Choice<Interpolation> how) {
  return composite(
      "quantile", [&] { return one_quantile(t, q, dim, keepdim, how, false, "quantile"); }, t);
}
Tensor quantile(T t, T q, std::optional<int> dim, bool keepdim, Choice<Interpolation> how) {
  return composite(
      "quantile",
      [&] {
        check_levels(q, "quantile");
        return quantiles(t, q, dim, keepdim, how, false, "quantile");
      },
      t, q);
}
Tensor nanquantile(T t, double q, std::optional<int> dim, bool keepdim, Choice<Interpolation> how) {
  return composite(
      "nanquantile", [&] { return one_quantile(t, q, dim, keepdim, how, true, "nanquantile"); }, t);
}
Tensor nanquantile(T t, T q, std::optional<int> dim, bool keepdim, Choice<Interpolation> how) {
  return composite(
      "nanquantile",
      [&] {
        check_levels(q, "nanquantile");
        return quantiles(t, q, dim, keepdim, how, true, "nanquantile");
      },
      t, q);
}

// ---- Counts

Tensor histc(T t, std::int64_t bins, double min, double max) {
  return composite(
      "histc",
      [&] {
        const NoGradGuard guard;
        FERRITE_CHECK(is_floating(t.dtype()), DTypeError, "histc",
                      "expected a floating type, got {}", t.dtype());
        FERRITE_CHECK(
            bins > 0 && min <= max && std::isfinite(min) && std::isfinite(max), ValueError, "histc",
            "expected 1 bin or more and finite min <= max, got {} in [{}, {}]", bins, min, max);
        const DType wide = itemsize(t.dtype()) == 2 ? kFloat32 : t.dtype();
        const Tensor x = t.reshape({-1}).to(wide);
        Tensor low = full({}, min, {.dtype = wide, .device = t.device()});
        Tensor high = full({}, max, {.dtype = wide, .device = t.device()});
        if (min == max && x.numel() > 0) {
          low = ferrite::min(x), high = ferrite::max(x);
          FERRITE_CHECK(!t.device().is_host() || (std::isfinite(low.item<double>()) &&
                                                  std::isfinite(high.item<double>())),
                        ValueError, "histc",
                        "expected finite elements or a range of them, got elements from {} to {}",
                        low.item<double>(), high.item<double>());
          const Tensor same = eq(low, high);
          low = where(same, low - 1, low), high = where(same, high + 1, high);
        }
        const Tensor inside = logical_and(ge(x, low), le(x, high));
        const Tensor width = high - low;  // 0 where numbers have no neighbours at 1
        const Tensor place = where(eq(width, 0), static_cast<double>(bins / 2),
                                   floor((x - low) * static_cast<double>(bins) / width));
        // Others, NaN among them, are counted in a bin that is cut off. As integers, because a
        // floating type does not have all numbers of many bins.
        const Tensor ids =
            where(logical_and(inside, ge(place, 0)), clamp(place.to(kInt64), 0, bins - 1), bins);
        const Tensor counts = zeros({bins + 1}, {.dtype = kInt64, .device = t.device()});
        return scatter_add(counts, 0, ids, ones_like(ids)).narrow(0, 0, bins).to(t.dtype());
      },
      t);
}

Tensor bincount(T t, T weights, std::int64_t minlength) {
  return composite(
      "bincount",
      [&] {
        const NoGradGuard guard;
        FERRITE_CHECK(is_integral(t.dtype()), DTypeError, "bincount", "expected integers, got {}",
                      t.dtype());
        FERRITE_CHECK(t.dim() == 1 && (!weights.defined() || weights.shape() == t.shape()),
                      ShapeError, "bincount", "expected 1 dimension, as for the weights, got {}",
                      t.shape());
        FERRITE_CHECK(minlength >= 0, ValueError, "bincount",
                      "expected a minlength of 0 or more, got {}", minlength);
        if (weights.defined()) ops::check_real(weights, "bincount");
        ferrite::detail::check_may_read(t.device(), "bincount");
        const Tensor ids = t.to(kInt64);
        std::int64_t size = minlength;
        if (ids.numel() > 0) {
          const std::int64_t least = min(ids).item<std::int64_t>();
          FERRITE_CHECK(least >= 0, ValueError, "bincount", "expected numbers of 0 or more, got {}",
                        least);
          const std::int64_t most = max(ids).item<std::int64_t>();
          FERRITE_CHECK(most < std::numeric_limits<std::int64_t>::max(), ValueError, "bincount",
                        "expected numbers below 2^63 - 1, got {}", most);
          size = std::max(size, most + 1);
        }
        const Tensor each = !weights.defined() || ids.numel() == 0
                                ? ones({1}, ids.options()).expand(ids.shape())
                            : weights.dtype() == kFloat32 ? weights
                                                          : weights.to(kFloat64);
        const Tensor none = zeros({size}, {.dtype = each.dtype(), .device = t.device()});
        return scatter_add(none, 0, ids, each);
      },
      t);
}

}  // namespace ferrite
