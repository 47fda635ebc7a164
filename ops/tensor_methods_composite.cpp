// The methods of core/tensor_methods.h for second names, and for functions that are made of others.
#include <algorithm>

#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/samples.h"

namespace ferrite {

using ops::composite_;

// ---- Second names

Tensor TensorMethods::absolute() const { return abs(); }
const Tensor& InPlaceMethods::absolute_() const { return abs_(); }
Tensor TensorMethods::negative() const { return neg(); }
const Tensor& InPlaceMethods::negative_() const { return neg_(); }
Tensor TensorMethods::arccos() const { return acos(); }
const Tensor& InPlaceMethods::arccos_() const { return acos_(); }
Tensor TensorMethods::arcsin() const { return asin(); }
const Tensor& InPlaceMethods::arcsin_() const { return asin_(); }
Tensor TensorMethods::arctan() const { return atan(); }
const Tensor& InPlaceMethods::arctan_() const { return atan_(); }
Tensor TensorMethods::arccosh() const { return acosh(); }
const Tensor& InPlaceMethods::arccosh_() const { return acosh_(); }
Tensor TensorMethods::arcsinh() const { return asinh(); }
const Tensor& InPlaceMethods::arcsinh_() const { return asinh_(); }
Tensor TensorMethods::arctanh() const { return atanh(); }
const Tensor& InPlaceMethods::arctanh_() const { return atanh_(); }
Tensor TensorMethods::fix() const { return trunc(); }
const Tensor& InPlaceMethods::fix_() const { return trunc_(); }
Tensor TensorMethods::subtract(const Tensor& other, Scalar alpha) const {
  return sub(other, alpha);
}
Tensor TensorMethods::subtract(Scalar other) const { return sub(other); }
const Tensor& InPlaceMethods::subtract_(const Tensor& other, Scalar alpha) const {
  return self().sub_(other, alpha);
}
const Tensor& InPlaceMethods::subtract_(Scalar other) const { return self().sub_(other); }
Tensor TensorMethods::multiply(const Tensor& other) const { return mul(other); }
Tensor TensorMethods::multiply(Scalar other) const { return mul(other); }
const Tensor& InPlaceMethods::multiply_(const Tensor& other) const { return self().mul_(other); }
const Tensor& InPlaceMethods::multiply_(Scalar other) const { return self().mul_(other); }
Tensor TensorMethods::divide(const Tensor& other) const { return div(other); }
Tensor TensorMethods::divide(Scalar other) const { return div(other); }
const Tensor& InPlaceMethods::divide_(const Tensor& other) const { return self().div_(other); }
const Tensor& InPlaceMethods::divide_(Scalar other) const { return self().div_(other); }
Tensor TensorMethods::true_divide(const Tensor& other) const { return div(other); }
Tensor TensorMethods::true_divide(Scalar other) const { return div(other); }
const Tensor& InPlaceMethods::true_divide_(const Tensor& other) const { return self().div_(other); }
const Tensor& InPlaceMethods::true_divide_(Scalar other) const { return self().div_(other); }
Tensor TensorMethods::greater(const Tensor& other) const { return gt(other); }
Tensor TensorMethods::greater(Scalar other) const { return gt(other); }
Tensor TensorMethods::greater_equal(const Tensor& other) const { return ge(other); }
Tensor TensorMethods::greater_equal(Scalar other) const { return ge(other); }
Tensor TensorMethods::less(const Tensor& other) const { return lt(other); }
Tensor TensorMethods::less(Scalar other) const { return lt(other); }
Tensor TensorMethods::less_equal(const Tensor& other) const { return le(other); }
Tensor TensorMethods::less_equal(Scalar other) const { return le(other); }
Tensor TensorMethods::not_equal(const Tensor& other) const { return ne(other); }
Tensor TensorMethods::not_equal(Scalar other) const { return ne(other); }
Tensor TensorMethods::arctan2(const Tensor& other) const { return atan2(other); }
Tensor TensorMethods::clip(std::optional<Scalar> min, std::optional<Scalar> max) const {
  return clamp(min, max);
}
const Tensor& InPlaceMethods::clip_(std::optional<Scalar> min, std::optional<Scalar> max) const {
  return self().clamp_(min, max);
}
Tensor TensorMethods::ger(const Tensor& other) const { return outer(other); }
Tensor TensorMethods::moveaxis(const Shape& source, const Shape& destination) const {
  return movedim(source, destination);
}
Tensor TensorMethods::moveaxis(int source, int destination) const {
  return movedim(source, destination);
}

// ---- Functions made of others

Tensor TensorMethods::fmax(const Tensor& other) const { return ferrite::fmax(self(), other); }
Tensor TensorMethods::fmin(const Tensor& other) const { return ferrite::fmin(self(), other); }
Tensor TensorMethods::float_power(const Tensor& exponent) const {
  return ferrite::float_power(self(), exponent);
}
Tensor TensorMethods::float_power(Scalar exponent) const {
  return ferrite::float_power(self(), exponent);
}
Tensor TensorMethods::isposinf() const { return ferrite::isposinf(self()); }
Tensor TensorMethods::isneginf() const { return ferrite::isneginf(self()); }
Tensor TensorMethods::isreal() const { return ferrite::isreal(self()); }
Tensor TensorMethods::vdot(const Tensor& other) const { return ferrite::vdot(self(), other); }
Tensor TensorMethods::dist(const Tensor& other, double p) const {
  if (const auto cast = ops::autocast(CastPolicy::float32, self(), other))
    return (*cast)[0].dist((*cast)[1], p);
  return ops::composite(
      "dist", [&] { return ferrite::norm(self() - other, p); }, self(), other);
}
Tensor TensorMethods::cov(int correction) const { return ferrite::cov(self(), correction); }
Tensor TensorMethods::corrcoef() const { return ferrite::corrcoef(self()); }
Tensor TensorMethods::msort() const { return ferrite::msort(self()); }
Tensor TensorMethods::bernoulli() const { return ferrite::bernoulli(self()); }
Tensor TensorMethods::prelu(const Tensor& weight) const { return ferrite::prelu(self(), weight); }
Tensor TensorMethods::hardshrink(double lambda) const {
  return ferrite::hardshrink(self(), lambda);
}
Tensor TensorMethods::adjoint() const { return conj().transpose(-2, -1); }
Tensor TensorMethods::fliplr() const { return ferrite::fliplr(self()); }
Tensor TensorMethods::flipud() const { return ferrite::flipud(self()); }
Tensor TensorMethods::diagflat(std::int64_t offset) const {
  return ferrite::diagflat(self(), offset);
}
std::vector<Tensor> TensorMethods::hsplit(std::int64_t sections) const {
  return ferrite::hsplit(self(), sections);
}
std::vector<Tensor> TensorMethods::hsplit(const std::vector<std::int64_t>& indices) const {
  return ferrite::hsplit(self(), indices);
}
std::vector<Tensor> TensorMethods::vsplit(std::int64_t sections) const {
  return ferrite::vsplit(self(), sections);
}
std::vector<Tensor> TensorMethods::vsplit(const std::vector<std::int64_t>& indices) const {
  return ferrite::vsplit(self(), indices);
}
std::vector<Tensor> TensorMethods::dsplit(std::int64_t sections) const {
  return ferrite::dsplit(self(), sections);
}
std::vector<Tensor> TensorMethods::dsplit(const std::vector<std::int64_t>& indices) const {
  return ferrite::dsplit(self(), indices);
}
Tensor TensorMethods::select_scatter(const Tensor& source, int dim, std::int64_t index) const {
  return ferrite::select_scatter(self(), source, dim, index);
}
Tensor TensorMethods::slice_scatter(const Tensor& source, int dim, std::int64_t start,
                                    std::int64_t end, std::int64_t step) const {
  return ferrite::slice_scatter(self(), source, dim, start, end, step);
}
Tensor TensorMethods::diagonal_scatter(const Tensor& source, std::int64_t offset, int dim1,
                                       int dim2) const {
  return ferrite::diagonal_scatter(self(), source, offset, dim1, dim2);
}
Tensor TensorMethods::argwhere() const { return nonzero(); }

// ---- In place

const Tensor& InPlaceMethods::clamp_min_(Scalar min) const { return self().clamp_(min); }
const Tensor& InPlaceMethods::clamp_max_(Scalar max) const { return self().clamp_({}, max); }
const Tensor& InPlaceMethods::tril_(std::int64_t diagonal) const {
  return composite_("tril_", self(), [&](const Tensor& x) { return x.tril(diagonal); });
}
const Tensor& InPlaceMethods::triu_(std::int64_t diagonal) const {
  return composite_("triu_", self(), [&](const Tensor& x) { return x.triu(diagonal); });
}
const Tensor& InPlaceMethods::floor_divide_(const Tensor& other) const {
  return composite_(
      "floor_divide_", self(), [&](const Tensor& x) { return x.floor_divide(other); }, other);
}
const Tensor& InPlaceMethods::floor_divide_(Scalar other) const {
  return composite_("floor_divide_", self(),
                    [&](const Tensor& x) { return x.floor_divide(other); });
}
const Tensor& InPlaceMethods::remainder_(const Tensor& other) const {
  return composite_(
      "remainder_", self(), [&](const Tensor& x) { return x.remainder(other); }, other);
}
const Tensor& InPlaceMethods::remainder_(Scalar other) const {
  return composite_("remainder_", self(), [&](const Tensor& x) { return x.remainder(other); });
}
const Tensor& InPlaceMethods::fmod_(const Tensor& other) const {
  return composite_(
      "fmod_", self(), [&](const Tensor& x) { return x.fmod(other); }, other);
}
const Tensor& InPlaceMethods::fmod_(Scalar other) const {
  return composite_("fmod_", self(), [&](const Tensor& x) { return x.fmod(other); });
}
const Tensor& InPlaceMethods::fill_diagonal_(Scalar value) const {
  constexpr const char* kOp = "fill_diagonal_";
  ops::check_defined(self(), kOp);
  const Tensor& x = self();
  const Shape& shape = x.shape();
  FERRITE_CHECK(x.dim() == 2 || (x.dim() > 2 && std::ranges::count(shape, shape[0]) == x.dim()),
                ShapeError, kOp, "expected a matrix, or more dimensions of one size, got {}",
                shape);
  ops::renamed(kOp, [&] {
    Tensor diagonal = x;
    while (diagonal.dim() > 1) diagonal = diagonal.diagonal(0, 0, 1);
    diagonal.fill_(value);
  });
  return x;
}

}  // namespace ferrite
