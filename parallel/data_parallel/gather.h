// Joins outputs of several devices on one of them (torch.nn.parallel.gather).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/data_parallel/nested.h"

namespace ferrite::parallel {

/// Concatenates the tensors along `dim`, on `target`; channels-last if all are. 0-dimensional
/// tensors, such as losses computed by replicas, become a vector with one element each, whatever
/// `dim` is. Each tensor is written directly into its place, by copies that run concurrently with
/// the devices' work. A single tensor that is on `target` is returned unchanged. Differentiable any
/// number of times: each tensor gets its part of the gradient on its device. If the target is the
/// host, it waits, and throws errors of the devices' work. Errors name the tensor and its device:
/// ShapeError if numbers or sizes of other dimensions differ, DTypeError if the dtypes do,
/// IndexError for a `dim` out of range, ValueError for no tensors or undefined ones.
Tensor gather(std::span<const Tensor> tensors, const Device& target, int dim = 0);
/// `gather({x, y}, "cuda:0")`
inline Tensor gather(std::initializer_list<Tensor> tensors, const Device& target, int dim = 0) {
  return gather(std::span(tensors.begin(), tensors.size()), target, dim);
}

namespace detail {

/// Several results at once, as one value: values[i] is the result of replica i, all with as many
/// tensors. Undefined if all are.
std::vector<Tensor> gather_tensors(std::span<const std::vector<Tensor>> values,
                                   const Device& target, int dim);
/// The properties of a gathered tensor.
struct Gathered {
  Shape shape;
  TensorOptions options;
  int dim = 0;
  std::vector<std::int64_t> sizes;  ///< sizes of the parts along `dim`
};
/// Undefined parts count as zero.
Tensor gather_parts(std::span<const Tensor> parts, const Gathered& whole);

}  // namespace detail

/// Any value (nested.h), tensor by tensor; all must have the same structure (ValueError: lengths of
/// lists, keys of maps, presence of optionals, undefined tensors). Other data is that of the first.
template <class T>
T gather(std::span<const T> values, const Device& target, int dim = 0) {
  FERRITE_CHECK(!values.empty(), ValueError, "gather", "there are no values to gather");
  T result = values[0];
  std::vector<std::vector<Tensor>> tensors(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    detail::zip_tensors(
        result, values[i], [&](const Tensor&, const Tensor& t) { tensors[i].push_back(t); },
        [&](const std::string& has, const std::string& expected) {
          fail<ValueError>("gather", "replica {} returned {}, replica 0 {}", i, has, expected);
        });
  const std::vector<Tensor> gathered = detail::gather_tensors(tensors, target, dim);
  std::size_t next = 0;
  for_each_tensor(result, [&](Tensor& t) { t = gathered[next++]; });
  return result;
}
template <class T>
T gather(const std::vector<T>& values, const Device& target, int dim = 0) {
  return gather(std::span<const T>(values), target, dim);
}

}  // namespace ferrite::parallel
