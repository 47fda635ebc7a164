// Reading and writing at places that tensors give, beyond ops/index.h, and looking for places.
// Indices, and errors of what is out of range, are as there. A function whose name ends in _
// changes `self` in place and returns it. All gradients are differentiable to any order, but those
// of products with zeros to the second.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <tuple>

#include "ferrite/core/generator.h"
#include "ferrite/core/named_tuple.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// gather() of tensors that broadcast, except along `dim`: `take_along_dim(x, argsort(x, 1), 1)`
/// sorts rows. Without `dim` both are taken as one dimension, and so is the result. Negative
/// indices, which PyTorch takes here, are out of range.
Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<int> dim = {});
/// The elements of `x`, seen as one dimension, at `index` (int64 or int32), whose shape the result
/// has. Negative indices count from the end. IndexError for an index out of range.
Tensor take(const Tensor& x, const Tensor& index);

/// A copy of x with its slices along `dim` at the 1-dimensional `index` replaced by those of
/// `source`, which has the shape of x with index.numel() in place of the size of `dim` (ShapeError)
/// and the dtype of x (DTypeError). Of several slices for one place the last one stays.
Tensor index_copy(const Tensor& x, int dim, const Tensor& index, const Tensor& source);
const Tensor& index_copy_(const Tensor& self, int dim, const Tensor& index, const Tensor& source);
/// A copy of x with `value` in its slices along `dim` at the 1-dimensional `index`. IndexError for
/// an index or a `dim` out of range; negative indices, which PyTorch takes here, are.
Tensor index_fill(const Tensor& x, int dim, const Tensor& index, Scalar value);
const Tensor& index_fill_(const Tensor& self, int dim, const Tensor& index, Scalar value);
/// A copy of x with the elements of `source`, in order, where the bool `mask` is true; x and mask
/// broadcast. `source`, of any shape, has the dtype of x (DTypeError). IndexError, as for an index,
/// if it has too few elements, ValueError if it has none.
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
/// As index_add(), with another `reduce` of the slices for a place: "prod", "mean", "amax" or
/// "amin" (ValueError), with the slice of x among them or without. Gradients and dtypes are those
/// of scatter_reduce().
Tensor index_reduce(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                    std::string_view reduce, bool include_self = true);
const Tensor& index_reduce_(const Tensor& self, int dim, const Tensor& index, const Tensor& source,
                            std::string_view reduce, bool include_self = true);

/// The options of searchsorted() and bucketize().
struct SearchOptions {
  bool out_int32 = false;  ///< whether indices are int32 instead of int64
  bool right = false;      ///< whether the index after equal values is returned, not before
};
/// The first place, or with `right` the last, where each value can be put into its sorted row:
/// int64 (int32 with out_int32) in the shape of the values, [..., m], with rows `sorted` [..., n],
/// or one row [n] for all. NaN counts as larger than every number. Dtypes are promoted, an integer
/// beside a floating one to float64. ShapeError for other shapes.
///
///   Tensor row = from_vector<float>({1, 3, 5}, {3}), values = from_vector<float>({0, 3, 9}, {3});
///   Tensor places = searchsorted(row, values);  // 0, 1, 3
Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& options = {});
Tensor searchsorted(const Tensor& sorted, Scalar value, const SearchOptions& options = {});
/// The options by position. A template, so that {} still means the struct.
template <std::same_as<bool> B>
Tensor searchsorted(const Tensor& sorted, const Tensor& values, B out_int32, bool right = false) {
  return searchsorted(sorted, values, SearchOptions{out_int32, right});
}
template <std::same_as<bool> B>
Tensor searchsorted(const Tensor& sorted, Scalar value, B out_int32, bool right = false) {
  return searchsorted(sorted, value, SearchOptions{out_int32, right});
}
/// searchsorted() with the one row `boundaries` [n]: the number of the interval in which each value
/// lies. ShapeError for boundaries of more dimensions.
Tensor bucketize(const Tensor& values, const Tensor& boundaries, const SearchOptions& options = {});
template <std::same_as<bool> B>
Tensor bucketize(const Tensor& values, const Tensor& boundaries, B out_int32, bool right = false) {
  return bucketize(values, boundaries, SearchOptions{out_int32, right});
}

/// Whether each element is one of `test`, or, with `invert`, is none: bool, in the shape of
/// `elements`. NaN is none. Dtypes are promoted.
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
/// The different elements in ascending order, [k] (with options.dim the different slices, in
/// lexicographic order), and if asked for: `inverse`, the index in them of each element, in the
/// shape of x, or of each slice; and `counts` [k], how often each occurs. NaNs are all different.
/// Off the tape. Waits for the device.
///
///   auto [values, inverse, counts] = unique(x, {.return_inverse = true, .return_counts = true});
Unique unique(const Tensor& x, const UniqueOptions& options = {});
/// The same of the elements in their order, of which only equal neighbors become one: 1, 1, 2, 1
/// gives 1, 2, 1.
Unique unique_consecutive(const Tensor& x, const UniqueOptions& options = {});

/// num_samples categories, int64, drawn with the probabilities that the weights in each row of `p`,
/// [k] or [n, k], are proportional to. Without replacement, categories of weight 0 come last.
/// Weights are floating (DTypeError), finite and 0 or more, and a row's are not all 0: ValueError
/// on the host; on other devices they are not looked at, which would wait. ValueError for more
/// samples than categories without replacement.
Tensor multinomial(const Tensor& p, std::int64_t num_samples, bool replacement = false,
                   Generator* generator = nullptr);

}  // namespace ferrite
