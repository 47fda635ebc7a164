// MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, for [N, C, H, W]. Options and errors are those of the
// functions in ops/pool.h.
#pragma once

#include <cstdint>
#include <optional>

#include "ferrite/nn/module.h"
#include "ferrite/ops/pool.h"

namespace ferrite::nn {

using ferrite::AvgPool2dOptions;
using ferrite::MaxPool2dOptions;

/// `MaxPool2d(3, {.stride = 2, .padding = 1})`, or the same arguments in PyTorch's order.
class MaxPool2d : public Cloneable<MaxPool2d> {
 public:
  explicit MaxPool2d(Pair kernel_size, const MaxPool2dOptions& options = {});
  MaxPool2d(Pair kernel_size, Pair stride, Pair padding = 0)
      : MaxPool2d(kernel_size, {.stride = stride, .padding = padding}) {}
  // MaxPool2d({3, 2}), which could be a copy of MaxPool2d(3, 2) as well.
  explicit MaxPool2d(const std::int64_t (&kernel_size)[2])
      : MaxPool2d(Pair(kernel_size[0], kernel_size[1])) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  MaxPool2dOptions options_;
};

class AvgPool2d : public Cloneable<AvgPool2d> {
 public:
  explicit AvgPool2d(Pair kernel_size, const AvgPool2dOptions& options = {});
  AvgPool2d(Pair kernel_size, Pair stride, Pair padding = 0)
      : AvgPool2d(kernel_size, {.stride = stride, .padding = padding}) {}
  // AvgPool2d({3, 2}), which could be a copy of AvgPool2d(3, 2) as well.
  explicit AvgPool2d(const std::int64_t (&kernel_size)[2])
      : AvgPool2d(Pair(kernel_size[0], kernel_size[1])) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  AvgPool2dOptions options_;
};

class AdaptiveAvgPool2d : public Cloneable<AdaptiveAvgPool2d> {
 public:
  explicit AdaptiveAvgPool2d(Pair output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  Pair output_size_;
};

}  // namespace ferrite::nn
