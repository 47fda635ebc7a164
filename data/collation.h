// A batch assembled sample by sample in its final memory.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "ferrite/core/tensor.h"

namespace ferrite::data {

/// Stacks samples along a new first dimension, like stack(); the first sample sets shape and dtype.
class Collation {
 public:
  /// For at least one sample (ValueError). If a sample's shape differs from the first, `differs` is
  /// called with it first, so that it can throw a more specific error.
  explicit Collation(std::int64_t samples, std::function<void(const Shape&)> differs = {});

  /// Memory for the next sample, dense, to be filled by the caller. ShapeError or DTypeError unless
  /// it matches the first sample.
  void* next(const Shape& shape, DType dtype);
  /// Copies the next sample from the host.
  void add(const Tensor& sample);

  /// The shape of one sample.
  const Shape& shape() const { return shape_; }
  /// The batch, after all samples were added.
  Tensor take() { return std::move(out_); }

 private:
  std::int64_t samples_, added_ = 0;
  std::function<void(const Shape&)> differs_;
  Shape shape_;
  Tensor out_;
};

}  // namespace ferrite::data
