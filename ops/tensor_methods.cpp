// The method forms of functions in ops/arithmetic.h, unary.h, activation.h and compare.h. Those of
// other families are defined with their functions.
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

Tensor Tensor::add(const Tensor& other, Scalar alpha) const {
  return ::ferrite::add(*this, other, alpha);
}
Tensor Tensor::sub(const Tensor& other, Scalar alpha) const {
  return ::ferrite::sub(*this, other, alpha);
}
Tensor Tensor::mul(const Tensor& other) const { return ::ferrite::mul(*this, other); }
Tensor Tensor::div(const Tensor& other) const { return ::ferrite::div(*this, other); }

Tensor Tensor::neg() const { return ::ferrite::neg(*this); }
Tensor Tensor::abs() const { return ::ferrite::abs(*this); }
Tensor Tensor::exp() const { return ::ferrite::exp(*this); }
Tensor Tensor::log() const { return ::ferrite::log(*this); }
Tensor Tensor::sqrt() const { return ::ferrite::sqrt(*this); }
Tensor Tensor::pow(Scalar exponent) const { return ::ferrite::pow(*this, exponent); }
Tensor Tensor::tanh() const { return ::ferrite::tanh(*this); }
Tensor Tensor::sigmoid() const { return ::ferrite::sigmoid(*this); }
Tensor Tensor::relu() const { return ::ferrite::relu(*this); }
const Tensor& Tensor::relu_() const { return ::ferrite::relu_(*this); }
Tensor Tensor::clamp(std::optional<Scalar> min, std::optional<Scalar> max) const {
  return ::ferrite::clamp(*this, min, max);
}

Tensor Tensor::eq(const Tensor& other) const { return ::ferrite::eq(*this, other); }
Tensor Tensor::ne(const Tensor& other) const { return ::ferrite::ne(*this, other); }

}  // namespace ferrite
