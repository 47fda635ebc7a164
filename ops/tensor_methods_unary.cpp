// The methods of core/tensor_methods.h that stand for functions of one tensor.
#include "ferrite/ops/activation.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

Tensor TensorMethods::neg() const { return ferrite::neg(self()); }
Tensor TensorMethods::abs() const { return ferrite::abs(self()); }
Tensor TensorMethods::sign() const { return ferrite::sign(self()); }
Tensor TensorMethods::square() const { return ferrite::square(self()); }
Tensor TensorMethods::floor() const { return ferrite::floor(self()); }
Tensor TensorMethods::ceil() const { return ferrite::ceil(self()); }
Tensor TensorMethods::round() const { return ferrite::round(self()); }
Tensor TensorMethods::trunc() const { return ferrite::trunc(self()); }
Tensor TensorMethods::exp() const { return ferrite::exp(self()); }
Tensor TensorMethods::exp2() const { return ferrite::exp2(self()); }
Tensor TensorMethods::expm1() const { return ferrite::expm1(self()); }
Tensor TensorMethods::log() const { return ferrite::log(self()); }
Tensor TensorMethods::log1p() const { return ferrite::log1p(self()); }
Tensor TensorMethods::log2() const { return ferrite::log2(self()); }
Tensor TensorMethods::sqrt() const { return ferrite::sqrt(self()); }
Tensor TensorMethods::rsqrt() const { return ferrite::rsqrt(self()); }
Tensor TensorMethods::reciprocal() const { return ferrite::reciprocal(self()); }
Tensor TensorMethods::sin() const { return ferrite::sin(self()); }
Tensor TensorMethods::cos() const { return ferrite::cos(self()); }
Tensor TensorMethods::tan() const { return ferrite::tan(self()); }
Tensor TensorMethods::tanh() const { return ferrite::tanh(self()); }
Tensor TensorMethods::erf() const { return ferrite::erf(self()); }
Tensor TensorMethods::sigmoid() const { return ferrite::sigmoid(self()); }
Tensor TensorMethods::relu() const { return ferrite::relu(self()); }
Tensor TensorMethods::isnan() const { return ferrite::isnan(self()); }
Tensor TensorMethods::isinf() const { return ferrite::isinf(self()); }
Tensor TensorMethods::isfinite() const { return ferrite::isfinite(self()); }
Tensor TensorMethods::logical_not() const { return ferrite::logical_not(self()); }
Tensor TensorMethods::bitwise_not() const { return ferrite::bitwise_not(self()); }
const Tensor& TensorMethods::neg_() const { return ferrite::neg_(self()); }
const Tensor& TensorMethods::abs_() const { return ferrite::abs_(self()); }
const Tensor& TensorMethods::sign_() const { return ferrite::sign_(self()); }
const Tensor& TensorMethods::square_() const { return ferrite::square_(self()); }
const Tensor& TensorMethods::floor_() const { return ferrite::floor_(self()); }
const Tensor& TensorMethods::ceil_() const { return ferrite::ceil_(self()); }
const Tensor& TensorMethods::round_() const { return ferrite::round_(self()); }
const Tensor& TensorMethods::trunc_() const { return ferrite::trunc_(self()); }
const Tensor& TensorMethods::exp_() const { return ferrite::exp_(self()); }
const Tensor& TensorMethods::exp2_() const { return ferrite::exp2_(self()); }
const Tensor& TensorMethods::expm1_() const { return ferrite::expm1_(self()); }
const Tensor& TensorMethods::log_() const { return ferrite::log_(self()); }
const Tensor& TensorMethods::log1p_() const { return ferrite::log1p_(self()); }
const Tensor& TensorMethods::log2_() const { return ferrite::log2_(self()); }
const Tensor& TensorMethods::sqrt_() const { return ferrite::sqrt_(self()); }
const Tensor& TensorMethods::rsqrt_() const { return ferrite::rsqrt_(self()); }
const Tensor& TensorMethods::reciprocal_() const { return ferrite::reciprocal_(self()); }
const Tensor& TensorMethods::sin_() const { return ferrite::sin_(self()); }
const Tensor& TensorMethods::cos_() const { return ferrite::cos_(self()); }
const Tensor& TensorMethods::tan_() const { return ferrite::tan_(self()); }
const Tensor& TensorMethods::tanh_() const { return ferrite::tanh_(self()); }
const Tensor& TensorMethods::erf_() const { return ferrite::erf_(self()); }
const Tensor& TensorMethods::sigmoid_() const { return ferrite::sigmoid_(self()); }
const Tensor& TensorMethods::relu_() const { return ferrite::relu_(self()); }
Tensor TensorMethods::asin() const { return ferrite::asin(self()); }
Tensor TensorMethods::acos() const { return ferrite::acos(self()); }
Tensor TensorMethods::atan() const { return ferrite::atan(self()); }
Tensor TensorMethods::sinh() const { return ferrite::sinh(self()); }
Tensor TensorMethods::cosh() const { return ferrite::cosh(self()); }
Tensor TensorMethods::asinh() const { return ferrite::asinh(self()); }
Tensor TensorMethods::acosh() const { return ferrite::acosh(self()); }
Tensor TensorMethods::atanh() const { return ferrite::atanh(self()); }
Tensor TensorMethods::log10() const { return ferrite::log10(self()); }
Tensor TensorMethods::erfc() const { return ferrite::erfc(self()); }
Tensor TensorMethods::sinc() const { return ferrite::sinc(self()); }
Tensor TensorMethods::deg2rad() const { return ferrite::deg2rad(self()); }
Tensor TensorMethods::rad2deg() const { return ferrite::rad2deg(self()); }
Tensor TensorMethods::frac() const { return ferrite::frac(self()); }
Tensor TensorMethods::logit(std::optional<double> eps) const { return ferrite::logit(self(), eps); }
Tensor TensorMethods::nan_to_num(double nan, std::optional<double> posinf,
                                 std::optional<double> neginf) const {
  return ferrite::nan_to_num(self(), nan, posinf, neginf);
}
Tensor TensorMethods::positive() const { return ferrite::positive(self()); }
Tensor TensorMethods::sgn() const { return ferrite::sgn(self()); }
Tensor TensorMethods::signbit() const { return ferrite::signbit(self()); }
const Tensor& TensorMethods::asin_() const { return ferrite::asin_(self()); }
const Tensor& TensorMethods::acos_() const { return ferrite::acos_(self()); }
const Tensor& TensorMethods::atan_() const { return ferrite::atan_(self()); }
const Tensor& TensorMethods::sinh_() const { return ferrite::sinh_(self()); }
const Tensor& TensorMethods::cosh_() const { return ferrite::cosh_(self()); }
const Tensor& TensorMethods::asinh_() const { return ferrite::asinh_(self()); }
const Tensor& TensorMethods::acosh_() const { return ferrite::acosh_(self()); }
const Tensor& TensorMethods::atanh_() const { return ferrite::atanh_(self()); }
const Tensor& TensorMethods::log10_() const { return ferrite::log10_(self()); }
const Tensor& TensorMethods::erfc_() const { return ferrite::erfc_(self()); }
const Tensor& TensorMethods::sinc_() const { return ferrite::sinc_(self()); }
const Tensor& TensorMethods::deg2rad_() const { return ferrite::deg2rad_(self()); }
const Tensor& TensorMethods::rad2deg_() const { return ferrite::rad2deg_(self()); }
const Tensor& TensorMethods::frac_() const { return ferrite::frac_(self()); }
const Tensor& TensorMethods::logit_(std::optional<double> eps) const {
  return ferrite::logit_(self(), eps);
}
const Tensor& TensorMethods::nan_to_num_(double nan, std::optional<double> posinf,
                                         std::optional<double> neginf) const {
  return ferrite::nan_to_num_(self(), nan, posinf, neginf);
}
const Tensor& TensorMethods::sgn_() const { return ferrite::sgn_(self()); }

}  // namespace ferrite
