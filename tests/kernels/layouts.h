// Tensors of random shapes and layouts for kernel tests, and naive access to their elements.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"
#include "ferrite/core/views.h"

namespace ferrite::test {

/// Up to `max_dims` sizes between 1 and `max_size`; occasionally one is 0.
inline Shape random_shape(Generator& random, int max_dims, std::int64_t max_size) {
  Shape shape;
  const auto ndim = random.next_below(static_cast<std::uint64_t>(max_dims) + 1);
  for (std::uint64_t d = 0; d < ndim; ++d)
    shape.push_back(
        static_cast<std::int64_t>(1 + random.next_below(static_cast<std::uint64_t>(max_size))));
  if (ndim > 0 && random.next_below(20) == 0) shape[0] = 0;
  return shape;
}

/// A tensor whose dimensions are in random order in memory, occasionally with gaps, and with some
/// elements before and after.
inline Tensor random_layout(Generator& random, const Shape& shape, DType dtype) {
  std::vector<int> order(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.next_below(i)]);
  Strides strides = Shape::filled(shape.size(), 0);
  std::int64_t step = random.next_below(3) == 0 ? 2 : 1;
  for (int d : order) {
    strides[d] = step;
    step *= std::max<std::int64_t>(shape[d], 1) + (random.next_below(4) == 0 ? 1 : 0);
  }
  const auto offset = static_cast<std::int64_t>(random.next_below(4));
  const Tensor storage = empty({offset + step + 3}, {.dtype = dtype});
  return geometry::as_strided(storage, shape, strides, offset);
}

/// `t` with some dimensions as if expanded from size 1.
inline Tensor randomly_expanded(Generator& random, const Tensor& t) {
  Strides strides = t.strides();
  for (std::int64_t& s : strides)
    if (random.next_below(3) == 0) s = 0;
  return geometry::as_strided(t, t.shape(), strides, t.storage_offset());
}

/// Offsets in elements from data_ptr(), in row-major order of the indices.
inline std::vector<std::int64_t> offsets_of(const Tensor& t) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int d = t.dim() - 1; d >= 0; --d) {
      offset += rest % t.shape()[d] * t.strides()[d];
      rest /= t.shape()[d];
    }
    offsets.push_back(offset);
  }
  return offsets;
}

/// Every byte of a tensor's storage.
inline std::vector<unsigned char> bytes_of_storage(const Tensor& t) {
  std::vector<unsigned char> bytes(t.storage()->nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), t.storage()->data(), bytes.size());
  return bytes;
}

/// Whether all bytes of `t`'s storage outside its elements are unchanged.
inline bool untouched_outside(const Tensor& t, const std::vector<unsigned char>& before) {
  std::vector<unsigned char> now = bytes_of_storage(t);
  for (std::int64_t offset : offsets_of(t)) {
    const std::size_t at = static_cast<std::size_t>(t.storage_offset() + offset) * t.itemsize();
    std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(at), t.itemsize(),
                now.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return now == before;
}

}  // namespace ferrite::test
