// InlineVector: a vector whose first N elements need no allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace ferrite {

/// For a few default-constructible, cheaply movable elements (tensors, edges).
template <class T, std::size_t N>
class InlineVector {
 public:
  InlineVector() = default;
  explicit InlineVector(std::size_t count) { resize(count); }
  InlineVector(std::initializer_list<T> values) {
    for (const T& v : values) push_back(v);
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// The address of the first element.
  T* data() { return size_ <= N ? inline_.data() : heap_.data(); }
  const T* data() const { return size_ <= N ? inline_.data() : heap_.data(); }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

  void push_back(T value) {
    resize(size_ + 1);
    data()[size_ - 1] = std::move(value);
  }
  /// Changes the number of elements.
  void resize(std::size_t count) {
    if (count > N) {
      if (size_ <= N) {
        heap_.reserve(count);
        heap_.assign(std::make_move_iterator(inline_.begin()),
                     std::make_move_iterator(inline_.begin() + static_cast<std::ptrdiff_t>(size_)));
      }
      heap_.resize(count);
    } else {
      if (size_ > N)
        for (std::size_t i = 0; i < count; ++i) inline_[i] = std::move(heap_[i]);
      for (std::size_t i = count; i < std::min(size_, N); ++i) inline_[i] = T();
      heap_.clear();
    }
    size_ = count;
  }

 private:
  std::size_t size_ = 0;
  std::array<T, N> inline_{};
  std::vector<T> heap_;
};

}  // namespace ferrite
