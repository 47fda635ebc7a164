// Joining and splitting tensors.
#pragma once

#include <span>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// A copy of the tensors joined along a dimension; all other sizes must agree (ShapeError). Dtypes
/// are promoted. Tensors [0] are skipped, whatever the other shapes. The result is channels_last if
/// all tensors are. ValueError for no tensor or an undefined one, ShapeError for ones without
/// dimensions (use stack()), IndexError for a dimension out of range, DeviceError for mixed
/// devices.
///
///   Tensor y = cat({zeros({2, 3}), ones({4, 3})});     // [6, 3]
///   Tensor z = cat({zeros({2, 3}), ones({2, 1})}, 1);  // [2, 4]
Tensor cat(std::span<const Tensor> tensors, int dim = 0);
inline Tensor cat(std::initializer_list<Tensor> tensors, int dim = 0) {
  return cat(std::span(tensors.begin(), tensors.size()), dim);
}

/// A copy of the tensors, all of one shape (ShapeError), along a new dimension `dim`; otherwise as
/// cat().
///
///   Tensor y = stack({zeros({2, 3}), ones({2, 3})}, 1);  // [2, 2, 3]
Tensor stack(std::span<const Tensor> tensors, int dim = 0);
inline Tensor stack(std::initializer_list<Tensor> tensors, int dim = 0) {
  return stack(std::span(tensors.begin(), tensors.size()), dim);
}

/// Views of size `split_size` along a dimension; the last one is smaller if `split_size` does not
/// divide the dimension's size. ValueError for a size below 1; IndexError for a dimension out of
/// range, or a tensor without dimensions.
///
///   split(arange(5), 2);  // 0, 1; 2, 3; 4
std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, int dim = 0);
/// Views of the given sizes, which are 0 or more and add up to the dimension's (ShapeError).
///
///   split(zeros({5, 2}), {1, 4});  // [1, 2] and [4, 2]
///
/// `{5}` is a split_size: a list of one size has to be a std::vector<std::int64_t>{5}.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim = 0);
/// At most `chunks` views of ceil(size / chunks), the last one smaller: 30 in 4 is 8, 8, 8, 6, and
/// 5 in 4 is 2, 2, 1 (PyTorch's rule; tensor_split() gives as many as it is asked for). Of a
/// dimension of size 0 there are `chunks`. ValueError for fewer than 1 chunk, and for more than
/// 2^20 of size 0; IndexError as of split().
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int dim = 0);
/// Views without the dimension, one for each of its indices; IndexError as of split().
///
///   std::vector<Tensor> rows = unbind(zeros({2, 3}));  // two of [3]
std::vector<Tensor> unbind(const Tensor& x, int dim = 0);

/// A copy of `x` repeated repeats[i] times along dimension i; with more repeats than dimensions,
/// new ones come first. ShapeError for fewer repeats than dimensions, ValueError for negative ones.
///
///   repeat(tensor({1, 2}), {2, 2});  // [[1, 2, 1, 2], [1, 2, 1, 2]]
Tensor repeat(const Tensor& x, const Shape& repeats);
/// Like repeat(), but fewer repeats than dimensions apply to the last ones.
Tensor tile(const Tensor& x, const Shape& repeats);

}  // namespace ferrite
