// Reading and writing at places that tensors give, beyond ops/index.h, and looking for places.
// Indices, and errors of what is out of range, are as there. A function whose name ends in _
// changes `self` in place and returns it. All gradients are differentiable to any order.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>

#include "ferrite/core/generator.h"
#include "ferrite/core/named_tuple.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// gather() of tensors that broadcast, except along `dim`; without one, of both as one dimension.
Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<int> dim = {});
/// The elements of `x` as one dimension at `index`, whose shape the result has. Negative indices
/// count from the end.
Tensor take(const Tensor& x, const Tensor& index);

/// x with its slices along `dim` at the 1-dimensional `index` replaced by those of `source`; of
/// several for one place the last one stays.
Tensor index_copy(const Tensor& x, int dim, const Tensor& index, const Tensor& source);
const Tensor& index_copy_(const Tensor& self, int dim, const Tensor& index, const Tensor& source);
/// With a value at these indices of a dimension.
Tensor index_fill(const Tensor& x, int dim, const Tensor& index, Scalar value);
const Tensor& index_fill_(const Tensor& self, int dim, const Tensor& index, Scalar value);
/// x with the elements of `source`, in order, where the bool `mask` (broadcast to x) is true.
/// IndexError, as for an index, if there are too few.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);
const Tensor& masked_scatter_(const Tensor& self, const Tensor& mask, const Tensor& source);

/// As scatter_add(), with another `reduce` of the elements for a place: "sum", "prod", "mean",
/// "amax" or "amin" (ValueError), with the element of x among them or without. Equal extrema share
/// the gradient. bool is a DTypeError.
Tensor scatter_reduce(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                      std::string_view reduce, bool include_self = true);
const Tensor& scatter_reduce_(const Tensor& self, int dim, const Tensor& index,
                              const Tensor& source, std::string_view reduce,
                              bool include_self = true);

/// The options of searchsorted() and bucketize().
struct SearchOptions {
  bool out_int32 = false;  ///< whether indices are int32 instead of int64
  bool right = false;      ///< whether the index after equal values is returned, not before
};
/// int64: the first place, or with `right` the last, where each value can be put into its sorted
/// row: of `sorted` [..., n] for values [..., m], or of one row [n] for all. DTypeError unless the
/// dtypes agree.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& options = {});
Tensor searchsorted(const Tensor& sorted, Scalar value, const SearchOptions& options = {});
/// The same, of the one row `boundaries`.
Tensor bucketize(const Tensor& values, const Tensor& boundaries, const SearchOptions& options = {});

/// Whether each element is one of `test`, or, with `invert`, is none. NaN is none.
Tensor isin(const Tensor& elements, const Tensor& test, bool invert = false);

struct UniqueOptions {
  bool return_inverse = false;  ///< whether the index in the result is returned too, for each input
  /// Whether the number of times that each value occurs is returned too.
  bool return_counts = false;
  std::optional<int> dim = {};  ///< compares slices along it, instead of elements
};
/// A NamedTuple.
struct Unique {
  Tensor values, inverse, counts;  ///< int64; undefined if not asked for
  /// The parts, for structured bindings.
  auto fields() { return std::tie(values, inverse, counts); }
  auto fields() const { return std::tie(values, inverse, counts); }
  operator std::tuple<Tensor&, Tensor&, Tensor&>() && { return fields(); }
  operator std::tuple<Tensor, Tensor, Tensor>() const { return fields(); }
};
/// The different elements in ascending order (slices: in lexicographic order), where in them each
/// element is, and how often each occurs. NaNs are all different. Off the tape. Waits for the
/// device.
Unique unique(const Tensor& x, const UniqueOptions& options = {});
/// The same of the elements as they are, of which only neighbours are compared.
Unique unique_consecutive(const Tensor& x, const UniqueOptions& options = {});

/// num_samples categories, int64, drawn with the probabilities that the weights in each row of `p`,
/// [k] or [n, k], are proportional to. Without replacement, categories of weight 0 come last.
/// Weights are floating (DTypeError), finite and 0 or more; a row's must not be all 0. They are not
/// looked at for that, which would wait for the device. ValueError for more samples than categories
/// without replacement.
Tensor multinomial(const Tensor& p, std::int64_t num_samples, bool replacement = false,
                   Generator* generator = nullptr);

}  // namespace ferrite
