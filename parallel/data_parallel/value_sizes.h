// Sizes of values with tensors inside (nested.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/parallel/data_parallel/nested.h"

namespace ferrite::parallel::dp {

/// Bytes of the tensors that are not on `target`.
template <class T>
std::int64_t moved_bytes(const std::vector<T>& values, const Device& target) {
  std::size_t bytes = 0;
  for (const T& value : values)
    for (const Tensor& t : tensors_in(value))
      if (t.defined() && t.device() != target) bytes += t.nbytes();
  return static_cast<std::int64_t>(bytes);
}

/// Bytes of the parts that scatter() moved to other devices than those of their tensors in `whole`.
template <class T>
std::int64_t moved_bytes(const T& whole, const std::vector<T>& parts) {
  const std::vector<Tensor> before = tensors_in(whole);
  std::size_t bytes = 0;
  for (const T& part : parts) {
    const std::vector<Tensor> after = tensors_in(part);
    for (std::size_t i = 0; i < after.size() && i < before.size(); ++i)
      if (after[i].defined() && after[i].device() != before[i].device()) bytes += after[i].nbytes();
  }
  return static_cast<std::int64_t>(bytes);
}

/// Size of a part of a batch along `dim`, from its first tensor with dimensions; -1 if it has none.
template <class T>
std::int64_t size_of_part(const T& part, int dim) {
  for (const Tensor& t : tensors_in(part))
    if (t.defined() && t.dim() > 0) return t.size(dim);
  return -1;
}

}  // namespace ferrite::parallel::dp
