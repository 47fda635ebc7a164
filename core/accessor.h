// TensorAccessor: a view of a host tensor's elements by their indices, for loops.
#pragma once

#include <version>
#ifdef __cpp_lib_mdspan
#include <mdspan>
#endif
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

namespace ferrite {

/// `auto a = x.accessor<float, 2>(); a(i, j) = 1;` or `a[i][j]` reads and writes elements of any
/// strides; an accessor<const float, 2> only reads. It is a std::mdspan with layout_stride in all
/// but its name, and converts to one where the standard library has it. It does not own the memory,
/// and does not check indices.
template <class T, std::size_t N>
class TensorAccessor {
  static_assert(N > 0, "an accessor has 1 dimension or more; item() reads a tensor without");

 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using index_type = std::int64_t;
  using Sizes = std::array<std::int64_t, N>;  ///< a size for each dimension
  /// An accessor of the other dimensions; the element itself for one dimension.
  using Part = std::conditional_t<N == 1, T&, TensorAccessor<T, N == 1 ? 1 : N - 1>>;

  /// Strides count elements, of any sign.
  TensorAccessor(T* data, const Sizes& sizes, const Sizes& strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  /// As above, with pointers to N sizes and N strides.
  TensorAccessor(T* data, const std::int64_t* sizes, const std::int64_t* strides) : data_(data) {
    for (std::size_t d = 0; d < N; ++d) sizes_[d] = sizes[d], strides_[d] = strides[d];
  }
  /// A read-only accessor of the elements of a writing one.
  template <std::same_as<value_type> U>
  requires std::is_const_v<T> TensorAccessor(const TensorAccessor<U, N>& other)
      : TensorAccessor(other.data(), other.sizes(), other.strides()) {}

  static constexpr std::size_t rank() { return N; }
  /// The size of each dimension.
  const Sizes& sizes() const { return sizes_; }
  /// The size of each dimension.
  const Sizes& extents() const { return sizes_; }
  const Sizes& strides() const { return strides_; }
  /// The size of a dimension.
  std::int64_t size(std::size_t dim) const { return sizes_[dim]; }
  /// The size of a dimension.
  std::int64_t extent(std::size_t dim) const { return sizes_[dim]; }
  /// The step of a dimension, in elements.
  std::int64_t stride(std::size_t dim) const { return strides_[dim]; }
  /// The first element.
  T* data() const { return data_; }
  /// The first element.
  T* data_handle() const { return data_; }
  std::int64_t numel() const {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes_) count *= size;
    return count;
  }

  /// The element at these indices.
  template <std::convertible_to<std::int64_t>... I>
  requires(sizeof...(I) == N) T& operator()(I... i) const {
    std::size_t d = 0;
    std::int64_t at = 0;
    ((at += static_cast<std::int64_t>(i) * strides_[d++]), ...);
    return data_[at];
  }
  /// The element at this index, or the part of the other dimensions.
  Part operator[](std::int64_t i) const {
    if constexpr (N == 1)
      return data_[i * strides_[0]];
    else
      return select(0, i);
  }

  // ---- Parts, without a copy
  /// The other dimensions at index `i` of `dim`: column 2 is a.select(1, 2).
  TensorAccessor<T, N - 1> select(std::size_t dim, std::int64_t i) const requires(N > 1) {
    std::array<std::int64_t, N - 1> sizes, strides;
    for (std::size_t d = 0, to = 0; d < N; ++d)
      if (d != dim) sizes[to] = sizes_[d], strides[to++] = strides_[d];
    return {data_ + i * strides_[dim], sizes, strides};
  }
  /// Indices start, start + step, ... below `end` of `dim`. Nothing counts from the end.
  TensorAccessor slice(std::size_t dim, std::int64_t start, std::int64_t end,
                       std::int64_t step = 1) const {
    TensorAccessor part = *this;
    part.data_ += start * strides_[dim];
    part.sizes_[dim] = end > start ? (end - start + step - 1) / step : 0;
    part.strides_[dim] *= step;
    return part;
  }

  /// `for (auto row : a) for (float& x : row) ...`
  class Iterator {
   public:
    using value_type = std::conditional_t<N == 1, std::remove_cv_t<T>, Part>;
    using difference_type = std::int64_t;

    Iterator() = default;
    Iterator(const TensorAccessor* view, std::int64_t at) : view_(view), at_(at) {}
    Part operator*() const { return (*view_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return {view_, at_++}; }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const TensorAccessor* view_ = nullptr;
    std::int64_t at_ = 0;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, sizes_[0]}; }

#ifdef __cpp_lib_mdspan
  using mdspan = std::mdspan<T, std::dextents<std::int64_t, N>, std::layout_stride>;
  operator mdspan() const {
    const std::dextents<std::int64_t, N> extents(sizes_);
    return mdspan(data_, typename mdspan::mapping_type(extents, strides_));
  }
#endif

 private:
  T* data_;
  Sizes sizes_, strides_;
};

}  // namespace ferrite
