// TensorAccessor: the elements of a host tensor by their indices, for loops.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferrite {

/// `auto a = x.accessor<float, 2>(); a[i][j] = 1;` reads and writes elements of any strides. It
/// does not own the memory, and does not check indices.
template <class T, std::size_t N>
class TensorAccessor {
 public:
  TensorAccessor(T* data, const std::int64_t* sizes, const std::int64_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}

  std::int64_t size(std::size_t dim) const { return sizes_[dim]; }
  std::int64_t stride(std::size_t dim) const { return strides_[dim]; }
  T* data() const { return data_; }

  decltype(auto) operator[](std::int64_t i) const {
    if constexpr (N == 1)
      return (data_[i * strides_[0]]);
    else
      return TensorAccessor<T, N - 1>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
  }

 private:
  T* data_;
  const std::int64_t *sizes_, *strides_;  // the tensor's
};

}  // namespace ferrite
