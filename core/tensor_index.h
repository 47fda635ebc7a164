// What Tensor::index() and index_put_() take, one for each dimension:
//
//   x.index({0, Slice(1, None), "...", mask, None})  is Python's  x[0, 1:, ..., mask, None]
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// A new dimension of size 1 in an index; a bound that is left out in a Slice.
inline constexpr std::nullopt_t None = std::nullopt;

/// The type of Ellipsis, Python's `...` in an index.
struct EllipsisType {};
/// All dimensions that the other indices leave; "..." in quotes means the same.
inline constexpr EllipsisType Ellipsis{};

/// start:stop:step, with Python's rules; `step` must be above 0.
struct Slice {
  Slice(std::optional<std::int64_t> start = {}, std::optional<std::int64_t> stop = {},
        std::optional<std::int64_t> step = {})
      : start(start.value_or(0)), stop(stop.value_or(INT64_MAX)), step(step.value_or(1)) {}
  std::int64_t start;  ///< the first index; 0 where it was left out
  std::int64_t stop;   ///< the index behind the last; INT64_MAX where it was left out
  std::int64_t step;   ///< the step between indices
};

/// One index: a number, Slice, None, "...", bool, mask or index tensor.
class TensorIndex {
 public:
  template <Size T>
  TensorIndex(T position) : value_(static_cast<std::int64_t>(position)) {}
  /// A new dimension, of size 1 for true and 0 for false.
  template <std::same_as<bool> T>
  TensorIndex(T on) : value_(on) {}
  TensorIndex(const Slice& slice) : value_(slice) {}
  TensorIndex(std::nullopt_t) : value_(std::nullopt) {}
  TensorIndex(EllipsisType) : value_(Ellipsis) {}
  /// "..." (ValueError for other text).
  TensorIndex(const char* text) : value_(Ellipsis) {
    FERRITE_CHECK(text == std::string_view("..."), ValueError, "index",
                  "'{}' is no index; the only text that is one is \"...\"", text);
  }
  /// Positions, int64 or int32; or a mask, bool, which stands for as many dimensions as it has.
  TensorIndex(const Tensor& tensor) : value_(tensor) {}

  /// What an index can be.
  using Value = std::variant<std::int64_t, bool, Slice, std::nullopt_t, EllipsisType, Tensor>;
  /// The index.
  const Value& value() const { return value_; }

 private:
  Value value_;
};

namespace indexing {
using ferrite::Ellipsis;
using ferrite::None;
using ferrite::Slice;
using ferrite::TensorIndex;
}  // namespace indexing

inline TensorView Tensor::index(std::initializer_list<TensorIndex> indices) const {
  return index(std::span(indices.begin(), indices.size()));
}
inline TensorView Tensor::operator[](const TensorIndex& index) const {
  return this->index(std::span(&index, 1));
}
template <std::same_as<bool> T>
TensorView Tensor::operator[](T on) const {
  return index({TensorIndex(on)});
}
inline const Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices,
                                        const Tensor& values, bool accumulate) const {
  return index_put_(std::span(indices.begin(), indices.size()), values, accumulate);
}
inline const Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices,
                                        Scalar value) const {
  return index_put_(std::span(indices.begin(), indices.size()), value);
}
inline Tensor Tensor::index_put(std::initializer_list<TensorIndex> indices, const Tensor& values,
                                bool accumulate) const {
  return clone().index_put_(indices, values, accumulate);
}

}  // namespace ferrite
