// The methods of core/tensor_methods.h that stand for functions of one tensor.
#include "ferrite/ops/activation.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/special.h"
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
const Tensor& InPlaceMethods::neg_() const { return ferrite::neg_(self()); }
const Tensor& InPlaceMethods::abs_() const { return ferrite::abs_(self()); }
const Tensor& InPlaceMethods::sign_() const { return ferrite::sign_(self()); }
const Tensor& InPlaceMethods::square_() const { return ferrite::square_(self()); }
const Tensor& InPlaceMethods::floor_() const { return ferrite::floor_(self()); }
const Tensor& InPlaceMethods::ceil_() const { return ferrite::ceil_(self()); }
const Tensor& InPlaceMethods::round_() const { return ferrite::round_(self()); }
const Tensor& InPlaceMethods::trunc_() const { return ferrite::trunc_(self()); }
const Tensor& InPlaceMethods::exp_() const { return ferrite::exp_(self()); }
const Tensor& InPlaceMethods::exp2_() const { return ferrite::exp2_(self()); }
const Tensor& InPlaceMethods::expm1_() const { return ferrite::expm1_(self()); }
const Tensor& InPlaceMethods::log_() const { return ferrite::log_(self()); }
const Tensor& InPlaceMethods::log1p_() const { return ferrite::log1p_(self()); }
const Tensor& InPlaceMethods::log2_() const { return ferrite::log2_(self()); }
const Tensor& InPlaceMethods::sqrt_() const { return ferrite::sqrt_(self()); }
const Tensor& InPlaceMethods::rsqrt_() const { return ferrite::rsqrt_(self()); }
const Tensor& InPlaceMethods::reciprocal_() const { return ferrite::reciprocal_(self()); }
const Tensor& InPlaceMethods::sin_() const { return ferrite::sin_(self()); }
const Tensor& InPlaceMethods::cos_() const { return ferrite::cos_(self()); }
const Tensor& InPlaceMethods::tan_() const { return ferrite::tan_(self()); }
const Tensor& InPlaceMethods::tanh_() const { return ferrite::tanh_(self()); }
const Tensor& InPlaceMethods::erf_() const { return ferrite::erf_(self()); }
const Tensor& InPlaceMethods::sigmoid_() const { return ferrite::sigmoid_(self()); }
const Tensor& InPlaceMethods::relu_() const { return ferrite::relu_(self()); }
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
Tensor TensorMethods::erfinv() const { return ferrite::erfinv(self()); }
Tensor TensorMethods::lgamma() const { return ferrite::lgamma(self()); }
Tensor TensorMethods::digamma() const { return ferrite::digamma(self()); }
Tensor TensorMethods::polygamma(std::int64_t n) const { return ferrite::polygamma(n, self()); }
Tensor TensorMethods::mvlgamma(std::int64_t p) const { return ferrite::mvlgamma(self(), p); }
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
const Tensor& InPlaceMethods::asin_() const { return ferrite::asin_(self()); }
const Tensor& InPlaceMethods::acos_() const { return ferrite::acos_(self()); }
const Tensor& InPlaceMethods::atan_() const { return ferrite::atan_(self()); }
const Tensor& InPlaceMethods::sinh_() const { return ferrite::sinh_(self()); }
const Tensor& InPlaceMethods::cosh_() const { return ferrite::cosh_(self()); }
const Tensor& InPlaceMethods::asinh_() const { return ferrite::asinh_(self()); }
const Tensor& InPlaceMethods::acosh_() const { return ferrite::acosh_(self()); }
const Tensor& InPlaceMethods::atanh_() const { return ferrite::atanh_(self()); }
const Tensor& InPlaceMethods::log10_() const { return ferrite::log10_(self()); }
const Tensor& InPlaceMethods::erfc_() const { return ferrite::erfc_(self()); }
const Tensor& InPlaceMethods::erfinv_() const { return ferrite::erfinv_(self()); }
const Tensor& InPlaceMethods::lgamma_() const { return ferrite::lgamma_(self()); }
const Tensor& InPlaceMethods::digamma_() const { return ferrite::digamma_(self()); }
const Tensor& InPlaceMethods::polygamma_(std::int64_t n) const {
  return ferrite::polygamma_(self(), n);
}
const Tensor& InPlaceMethods::mvlgamma_(std::int64_t p) const {
  return ferrite::mvlgamma_(self(), p);
}
const Tensor& InPlaceMethods::sinc_() const { return ferrite::sinc_(self()); }
const Tensor& InPlaceMethods::deg2rad_() const { return ferrite::deg2rad_(self()); }
const Tensor& InPlaceMethods::rad2deg_() const { return ferrite::rad2deg_(self()); }
const Tensor& InPlaceMethods::frac_() const { return ferrite::frac_(self()); }
const Tensor& InPlaceMethods::logit_(std::optional<double> eps) const {
  return ferrite::logit_(self(), eps);
}
const Tensor& InPlaceMethods::nan_to_num_(double nan, std::optional<double> posinf,
                                          std::optional<double> neginf) const {
  return ferrite::nan_to_num_(self(), nan, posinf, neginf);
}
const Tensor& InPlaceMethods::sgn_() const { return ferrite::sgn_(self()); }

}  // namespace ferrite
