// The methods of core/in_place_methods.h that have no function of their name.
#include "ferrite/ops/blend.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/products.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using ops::composite_;

namespace {

using T = const Tensor&;

template <class F>
T of_two(const char* op, T self, T other, F f) {
  return composite_(
      op, self, [&](T x) { return f(x, other); }, other);
}

}  // namespace

// ---- In place, of two tensors

const Tensor& InPlaceMethods::eq_(const Tensor& other) const {
  return of_two("eq_", self(), other, [](T a, T b) { return eq(a, b); });
}
const Tensor& InPlaceMethods::eq_(Scalar other) const {
  return composite_("eq_", self(), [other](T a) { return eq(a, other); });
}
const Tensor& InPlaceMethods::ne_(const Tensor& other) const {
  return of_two("ne_", self(), other, [](T a, T b) { return ne(a, b); });
}
const Tensor& InPlaceMethods::ne_(Scalar other) const {
  return composite_("ne_", self(), [other](T a) { return ne(a, other); });
}
const Tensor& InPlaceMethods::lt_(const Tensor& other) const {
  return of_two("lt_", self(), other, [](T a, T b) { return lt(a, b); });
}
const Tensor& InPlaceMethods::lt_(Scalar other) const {
  return composite_("lt_", self(), [other](T a) { return lt(a, other); });
}
const Tensor& InPlaceMethods::le_(const Tensor& other) const {
  return of_two("le_", self(), other, [](T a, T b) { return le(a, b); });
}
const Tensor& InPlaceMethods::le_(Scalar other) const {
  return composite_("le_", self(), [other](T a) { return le(a, other); });
}
const Tensor& InPlaceMethods::gt_(const Tensor& other) const {
  return of_two("gt_", self(), other, [](T a, T b) { return gt(a, b); });
}
const Tensor& InPlaceMethods::gt_(Scalar other) const {
  return composite_("gt_", self(), [other](T a) { return gt(a, other); });
}
const Tensor& InPlaceMethods::ge_(const Tensor& other) const {
  return of_two("ge_", self(), other, [](T a, T b) { return ge(a, b); });
}
const Tensor& InPlaceMethods::ge_(Scalar other) const {
  return composite_("ge_", self(), [other](T a) { return ge(a, other); });
}
const Tensor& InPlaceMethods::logical_and_(const Tensor& other) const {
  return of_two("logical_and_", self(), other, [](T a, T b) { return logical_and(a, b); });
}
const Tensor& InPlaceMethods::logical_or_(const Tensor& other) const {
  return of_two("logical_or_", self(), other, [](T a, T b) { return logical_or(a, b); });
}
const Tensor& InPlaceMethods::logical_xor_(const Tensor& other) const {
  return of_two("logical_xor_", self(), other, [](T a, T b) { return logical_xor(a, b); });
}
const Tensor& InPlaceMethods::bitwise_and_(const Tensor& other) const {
  return of_two("bitwise_and_", self(), other, [](T a, T b) { return bitwise_and(a, b); });
}
const Tensor& InPlaceMethods::bitwise_and_(Scalar other) const {
  return composite_("bitwise_and_", self(), [other](T a) { return bitwise_and(a, other); });
}
const Tensor& InPlaceMethods::bitwise_or_(const Tensor& other) const {
  return of_two("bitwise_or_", self(), other, [](T a, T b) { return bitwise_or(a, b); });
}
const Tensor& InPlaceMethods::bitwise_or_(Scalar other) const {
  return composite_("bitwise_or_", self(), [other](T a) { return bitwise_or(a, other); });
}
const Tensor& InPlaceMethods::bitwise_xor_(const Tensor& other) const {
  return of_two("bitwise_xor_", self(), other, [](T a, T b) { return bitwise_xor(a, b); });
}
const Tensor& InPlaceMethods::bitwise_xor_(Scalar other) const {
  return composite_("bitwise_xor_", self(), [other](T a) { return bitwise_xor(a, other); });
}
const Tensor& InPlaceMethods::bitwise_left_shift_(const Tensor& other) const {
  return of_two("bitwise_left_shift_", self(), other,
                [](T a, T b) { return bitwise_left_shift(a, b); });
}
const Tensor& InPlaceMethods::bitwise_left_shift_(Scalar other) const {
  return composite_("bitwise_left_shift_", self(),
                    [other](T a) { return bitwise_left_shift(a, other); });
}
const Tensor& InPlaceMethods::bitwise_right_shift_(const Tensor& other) const {
  return of_two("bitwise_right_shift_", self(), other,
                [](T a, T b) { return bitwise_right_shift(a, b); });
}
const Tensor& InPlaceMethods::bitwise_right_shift_(Scalar other) const {
  return composite_("bitwise_right_shift_", self(),
                    [other](T a) { return bitwise_right_shift(a, other); });
}
const Tensor& InPlaceMethods::atan2_(const Tensor& other) const {
  return of_two("atan2_", self(), other, [](T a, T b) { return atan2(a, b); });
}
const Tensor& InPlaceMethods::hypot_(const Tensor& other) const {
  return of_two("hypot_", self(), other, [](T a, T b) { return hypot(a, b); });
}
const Tensor& InPlaceMethods::heaviside_(const Tensor& other) const {
  return of_two("heaviside_", self(), other, [](T a, T b) { return heaviside(a, b); });
}
const Tensor& InPlaceMethods::copysign_(const Tensor& other) const {
  return of_two("copysign_", self(), other, [](T a, T b) { return copysign(a, b); });
}
const Tensor& InPlaceMethods::copysign_(Scalar other) const {
  return composite_("copysign_", self(), [other](T a) { return copysign(a, other); });
}
const Tensor& InPlaceMethods::xlogy_(const Tensor& other) const {
  return of_two("xlogy_", self(), other, [](T a, T b) { return xlogy(a, b); });
}
const Tensor& InPlaceMethods::xlogy_(Scalar other) const {
  return composite_("xlogy_", self(), [other](T a) { return xlogy(a, other); });
}
const Tensor& InPlaceMethods::logical_not_() const {
  return composite_("logical_not_", self(), logical_not);
}
const Tensor& InPlaceMethods::bitwise_not_() const {
  return composite_("bitwise_not_", self(), bitwise_not);
}
const Tensor& InPlaceMethods::renorm_(double p, int dim, double maxnorm) const {
  return composite_("renorm_", self(), [=](T a) { return renorm(a, p, dim, maxnorm); });
}

// ---- In place, with products

const Tensor& InPlaceMethods::addmm_(const Tensor& a, const Tensor& b, Scalar beta,
                                     Scalar alpha) const {
  return composite_(
      "addmm_", self(), [&](T x) { return addmm(x, a, b, beta, alpha); }, a, b);
}
const Tensor& InPlaceMethods::addmv_(const Tensor& a, const Tensor& b, Scalar beta,
                                     Scalar alpha) const {
  return composite_(
      "addmv_", self(), [&](T x) { return addmv(x, a, b, beta, alpha); }, a, b);
}
const Tensor& InPlaceMethods::addr_(const Tensor& a, const Tensor& b, Scalar beta,
                                    Scalar alpha) const {
  return composite_(
      "addr_", self(), [&](T x) { return addr(x, a, b, beta, alpha); }, a, b);
}
const Tensor& InPlaceMethods::baddbmm_(const Tensor& a, const Tensor& b, Scalar beta,
                                       Scalar alpha) const {
  return composite_(
      "baddbmm_", self(), [&](T x) { return baddbmm(x, a, b, beta, alpha); }, a, b);
}
const Tensor& InPlaceMethods::addbmm_(const Tensor& a, const Tensor& b, Scalar beta,
                                      Scalar alpha) const {
  return composite_(
      "addbmm_", self(), [&](T x) { return addbmm(x, a, b, beta, alpha); }, a, b);
}

}  // namespace ferrite
