// A batch that grows sample by sample in the memory that it will be handed out in.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "ferrite/core/tensor.h"

namespace ferrite::data {

/// Stacks samples along a new first dimension, as stack() does; the first sets shape and dtype.
class Collation {
 public:
  /// For one sample or more (ValueError). Where one has another shape than the first, `differs` is
  /// called with it before the error is thrown, to throw a better one.
  explicit Collation(std::int64_t samples, std::function<void(const Shape&)> differs = {});

  /// Memory for the next sample, dense and to be filled. ShapeError or DTypeError unless it is as
  /// the first was.
  void* next(const Shape& shape, DType dtype);
  /// Copies the next sample, of the host.
  void add(const Tensor& sample);

  /// Of one sample.
  const Shape& shape() const { return shape_; }
  /// The batch, of which all samples are there.
  Tensor take() { return std::move(out_); }

 private:
  std::int64_t samples_, added_ = 0;
  std::function<void(const Shape&)> differs_;
  Shape shape_;
  Tensor out_;
};

}  // namespace ferrite::data
