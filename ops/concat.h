// Joining and splitting tensors.
#pragma once

#include <span>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// Concatenates the tensors along `dim`; all other sizes must agree (ShapeError). Element types are
/// promoted. Empty 1-dimensional tensors are skipped, whatever the other shapes. The result is
/// channels_last if all tensors are.
///
///   Tensor y = cat({zeros({2, 3}), ones({4, 3})});  // [6, 3]
Tensor cat(std::span<const Tensor> tensors, int dim = 0);
inline Tensor cat(std::initializer_list<Tensor> tensors, int dim = 0) {
  return cat(std::span(tensors.begin(), tensors.size()), dim);
}

/// The tensors, all of one shape (ShapeError), along a new dimension `dim`.
Tensor stack(std::span<const Tensor> tensors, int dim = 0);
inline Tensor stack(std::initializer_list<Tensor> tensors, int dim = 0) {
  return stack(std::span(tensors.begin(), tensors.size()), dim);
}

/// Views of size `split_size` along `dim`; the last one is smaller if it does not divide the size.
std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, int dim = 0);
/// Views of the given sizes, which must add up to the dimension's (ShapeError).
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim = 0);
/// At most `chunks` views of ceil(size / chunks), the last one smaller: 30 in 4 is 8, 8, 8, 6, and
/// 5 in 4 is 2, 2, 1 (PyTorch's rule).
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int dim = 0);
/// Views without the dimension, one per index.
std::vector<Tensor> unbind(const Tensor& x, int dim = 0);

/// A copy of `x` repeated repeats[i] times along dimension i; new dimensions come first.
Tensor repeat(const Tensor& x, const Shape& repeats);
/// Like repeat, but fewer repeats than dimensions apply to the last ones.
Tensor tile(const Tensor& x, const Shape& repeats);

}  // namespace ferrite
