// Arguments that are one tensor or several.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// The tensors of an argument: `f(x)`, `f({x, y})`, `f(model.parameters())`, or none, `f({})`. It
/// refers to them, so it is for parameters of functions alone.
class TensorList : public std::span<const Tensor> {
 public:
  TensorList() = default;
  TensorList(const Tensor& tensor) : span(&tensor, 1) {}
  TensorList(std::initializer_list<Tensor> tensors) : span(tensors.begin(), tensors.size()) {}
  TensorList(const Tensor* tensors, std::size_t count) : span(tensors, count) {}
  template <std::convertible_to<std::span<const Tensor>> Tensors>
  requires(!std::derived_from<Tensors, TensorList>) TensorList(const Tensors& tensors)
      : span(std::span<const Tensor>(tensors)) {}
};

}  // namespace ferrite
