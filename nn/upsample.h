// Upsample: images at another size.
#pragma once

#include "ferrite/nn/module.h"
#include "ferrite/ops/resize.h"

namespace ferrite::nn {

/// `Upsample({.scale_factor = 2})`, with the options of interpolate() (ops/resize.h), whose errors
/// come with the first input.
class Upsample : public Cloneable<Upsample> {
 public:
  explicit Upsample(const InterpolateOptions& options) : options_(options) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  InterpolateOptions options_;
};

}  // namespace ferrite::nn
