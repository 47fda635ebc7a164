#include "ferrite/ops/embedding_bag.h"

#include <limits>
#include <string>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/indexing.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/renamed.h"

namespace ferrite {

namespace {

constexpr const char* kBag = "embedding_bag";

/// Indices [bags, n] and which of them count, or undefined if all do: for rows of one length.
struct Rows {
  Tensor indices, counts;
};

/// The rows of `x` [bags, n, width], reduced; `counts` [bags, n].
Tensor reduce_rows(const Tensor& x, const Tensor& counts, BagMode mode) {
  if (!counts.defined()) {
    if (mode == BagMode::sum || x.size(1) == 0) return sum(x, {1});
    return mode == BagMode::max ? max(x, 1).values : mean(x, {1});
  }
  const Tensor mask = counts.unsqueeze(2);
  if (mode == BagMode::max) {
    if (x.size(1) == 0) return sum(x, {1});
    const Tensor most = max(where(mask, x, -std::numeric_limits<double>::infinity()), 1).values;
    return where(any(mask, 1), most, 0);
  }
  const Tensor total = sum(where(mask, x, 0), {1});
  return mode == BagMode::sum ? total : total / clamp_min(sum(mask, {1}), 1).to(x.dtype());
}

/// Bags of several lengths as rows of the longest.
Rows padded_rows(const Tensor& flat, const Tensor& first, const Tensor& counts) {
  const TensorOptions index{.dtype = kInt64, .device = flat.device()};
  const Tensor end = full({1}, flat.numel(), index);
  const Tensor lengths = (first.size(0) > 1 ? cat({first.slice(0, 1), end}) : end) - first;
  const Tensor columns = arange(max(lengths).item<std::int64_t>(), index);
  const Tensor inside = lt(columns, lengths.unsqueeze(1));
  const Shape shape = inside.shape();
  const Tensor at = where(inside, first.unsqueeze(1) + columns, 0).reshape({inside.numel()});
  return {
      index_select(flat, 0, at).reshape(shape),
      counts.defined() ? logical_and(inside, index_select(counts, 0, at).reshape(shape)) : inside};
}

/// Sums or means of rows [n, width] from each of the offsets `first` on to the next.
Tensor reduce_runs(const Tensor& x, const Tensor& counts, const Tensor& first, BagMode mode) {
  const std::int64_t n = x.size(0), bags = first.size(0);
  const TensorOptions index{.dtype = kInt64, .device = x.device()};
  // Each offset begins one bag more.
  const Tensor begins = index_add(zeros({n + 1}, index), 0, first, ones({bags}, index));
  const Tensor bag = (cumsum(begins, 0) - 1).slice(0, 0, n);
  const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
  const Tensor total = index_add(zeros({bags, x.size(1)}, like), 0, bag,
                                 counts.defined() ? where(counts.unsqueeze(1), x, 0) : x);
  if (mode == BagMode::sum) return total;
  const Tensor sizes = index_add(zeros({bags}, index), 0, bag,
                                 counts.defined() ? counts.to(kInt64) : ones({n}, index));
  return total / clamp_min(sizes, 1).unsqueeze(1).to(x.dtype());
}

/// Of offsets that decrease, sums would silently be those of other bags. On devices other than the
/// host this waits for the values, so there it is done only for the maximum, which waits as well.
void check_offsets(const Tensor& offsets, std::int64_t n, const EmbeddingBagOptions& o) {
  FERRITE_CHECK(offsets.numel() > 0 || !o.include_last_offset, ValueError, kBag,
                "offsets: expected the end of the last bag with include_last_offset, got none");
  if (tracing::on() || (o.mode != BagMode::max && !offsets.device().is_host())) return;
  std::int64_t last = 0, position = 0;
  for (const std::int64_t offset : offsets.to_vector<std::int64_t>()) {
    FERRITE_CHECK(offset >= last && offset <= n && (position > 0 || offset == 0), ValueError, kBag,
                  "offsets: expected 0, then numbers that do not decrease, up to the {} indices; "
                  "got {} at position {}{}",
                  n, offset, position,
                  position > 0 ? ", after " + std::to_string(last) : std::string());
    last = offset, ++position;
  }
  FERRITE_CHECK(!o.include_last_offset || last == n, ValueError, kBag,
                "offsets: expected {}, the number of indices, as the last with "
                "include_last_offset, got {}",
                n, last);
}

}  // namespace

Tensor embedding_bag(const Tensor& indices, const Tensor& weight, const Tensor& offsets,
                     const EmbeddingBagOptions& o) {
  const profiler::OpRange range(kBag, indices, weight, offsets);
  FERRITE_CHECK(indices.defined() && weight.defined(), ValueError, kBag,
                "the indices or the weight are undefined");
  FERRITE_CHECK(is_floating(weight.dtype()), DTypeError, kBag,
                "expected a weight of a floating type, got {}", weight.describe());
  FERRITE_CHECK(weight.dim() == 2, ShapeError, kBag,
                "expected a weight [num_embeddings, width], got {}", weight.describe());
  const bool in_rows = indices.dim() == 2;
  FERRITE_CHECK((in_rows && !offsets.defined()) ||
                    (indices.dim() == 1 && offsets.defined() && offsets.dim() == 1),
                ShapeError, kBag,
                "expected indices [bags, n], or [n] with offsets [bags], got {} and {}",
                indices.describe(), offsets.defined() ? offsets.describe() : "no offsets");
  const Tensor& factors = o.per_sample_weights;
  FERRITE_CHECK(!factors.defined() || o.mode == BagMode::sum, ValueError, kBag,
                "per_sample_weights need BagMode::sum");
  FERRITE_CHECK(!factors.defined() || factors.shape() == indices.shape(), ShapeError, kBag,
                "expected per_sample_weights of the shape of the indices {}, got {}",
                indices.shape(), factors.describe());
  FERRITE_CHECK(!o.scale_grad_by_freq || o.mode != BagMode::max, ValueError, kBag,
                "scale_grad_by_freq works with the modes sum and mean, not with max");
  return ops::renamed(kBag, [&] {
    const std::int64_t rows = weight.size(0);
    Tensor flat = ops::checked_index(indices, weight, kBag);
    Tensor counts, first;
    if (!in_rows) {
      first = ops::checked_index(offsets, weight, kBag);
      check_offsets(first, flat.numel(), o);
      if (o.include_last_offset) first = first.slice(0, 0, first.size(0) - 1);
    }
    if (o.padding_idx) {
      FERRITE_CHECK(*o.padding_idx >= -rows && *o.padding_idx < rows, ValueError, kBag,
                    "padding_idx {} is outside of {} embeddings", *o.padding_idx, rows);
      counts = ne(flat, *o.padding_idx < 0 ? *o.padding_idx + rows : *o.padding_idx);
    }
    if (o.max_norm) ops::limit_norms(weight, flat, *o.max_norm, o.norm_type, kBag);
    const auto look_up = [&](const Tensor& at) {
      if (o.scale_grad_by_freq) return embedding(at, weight, {.scale_grad_by_freq = true});
      Shape shape = at.shape();
      shape.push_back(weight.size(1));
      return ops::index_select(weight, 0, at.reshape({at.numel()}), kBag).reshape(shape);
    };
    const auto scaled = [&](const Tensor& x) {
      if (!factors.defined()) return x;
      // Rows that do not count give their factors no gradient, be they infinite.
      return (o.padding_idx ? where(counts.unsqueeze(-1), x, 0) : x) * factors.unsqueeze(-1);
    };
    if (in_rows) return reduce_rows(scaled(look_up(flat)), counts, o.mode);
    if (first.size(0) == 0)
      return zeros({0, weight.size(1)}, {.dtype = weight.dtype(), .device = weight.device()});
    if (o.mode == BagMode::max) {
      const Rows padded = padded_rows(flat, first, counts);
      return reduce_rows(look_up(padded.indices), padded.counts, o.mode);
    }
    return reduce_runs(scaled(look_up(flat)), counts, first, o.mode);
  });
}

}  // namespace ferrite
