// The methods of core/tensor_methods.h: each calls the function of its name.
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/join.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite {

Tensor TensorMethods::add(const Tensor& other, Scalar alpha) const {
  return ferrite::add(self(), other, alpha);
}
Tensor TensorMethods::add(Scalar other) const { return ferrite::add(self(), other); }
Tensor TensorMethods::sub(const Tensor& other, Scalar alpha) const {
  return ferrite::sub(self(), other, alpha);
}
Tensor TensorMethods::sub(Scalar other) const { return ferrite::sub(self(), other); }
Tensor TensorMethods::mul(const Tensor& other) const { return ferrite::mul(self(), other); }
Tensor TensorMethods::mul(Scalar other) const { return ferrite::mul(self(), other); }
Tensor TensorMethods::div(const Tensor& other) const { return ferrite::div(self(), other); }
Tensor TensorMethods::div(Scalar other) const { return ferrite::div(self(), other); }
Tensor TensorMethods::matmul(const Tensor& other) const { return ferrite::matmul(self(), other); }
Tensor TensorMethods::mm(const Tensor& other) const { return ferrite::mm(self(), other); }
Tensor TensorMethods::bmm(const Tensor& other) const { return ferrite::bmm(self(), other); }
Tensor TensorMethods::mv(const Tensor& vector) const { return ferrite::mv(self(), vector); }
Tensor TensorMethods::dot(const Tensor& other) const { return ferrite::dot(self(), other); }
Tensor TensorMethods::outer(const Tensor& other) const { return ferrite::outer(self(), other); }
Tensor TensorMethods::addmm(const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) const {
  return ferrite::addmm(self(), a, b, beta, alpha);
}
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
Tensor TensorMethods::eq(const Tensor& other) const { return ferrite::eq(self(), other); }
Tensor TensorMethods::eq(Scalar other) const { return ferrite::eq(self(), other); }
Tensor TensorMethods::ne(const Tensor& other) const { return ferrite::ne(self(), other); }
Tensor TensorMethods::ne(Scalar other) const { return ferrite::ne(self(), other); }
Tensor TensorMethods::lt(const Tensor& other) const { return ferrite::lt(self(), other); }
Tensor TensorMethods::lt(Scalar other) const { return ferrite::lt(self(), other); }
Tensor TensorMethods::le(const Tensor& other) const { return ferrite::le(self(), other); }
Tensor TensorMethods::le(Scalar other) const { return ferrite::le(self(), other); }
Tensor TensorMethods::gt(const Tensor& other) const { return ferrite::gt(self(), other); }
Tensor TensorMethods::gt(Scalar other) const { return ferrite::gt(self(), other); }
Tensor TensorMethods::ge(const Tensor& other) const { return ferrite::ge(self(), other); }
Tensor TensorMethods::ge(Scalar other) const { return ferrite::ge(self(), other); }
Tensor TensorMethods::logical_and(const Tensor& other) const {
  return ferrite::logical_and(self(), other);
}
Tensor TensorMethods::logical_or(const Tensor& other) const {
  return ferrite::logical_or(self(), other);
}
Tensor TensorMethods::logical_xor(const Tensor& other) const {
  return ferrite::logical_xor(self(), other);
}
Tensor TensorMethods::bitwise_and(Scalar other) const {
  return ferrite::bitwise_and(self(), other);
}
Tensor TensorMethods::bitwise_and(const Tensor& other) const {
  return ferrite::bitwise_and(self(), other);
}
Tensor TensorMethods::bitwise_or(Scalar other) const { return ferrite::bitwise_or(self(), other); }
Tensor TensorMethods::bitwise_or(const Tensor& other) const {
  return ferrite::bitwise_or(self(), other);
}
Tensor TensorMethods::bitwise_xor(Scalar other) const {
  return ferrite::bitwise_xor(self(), other);
}
Tensor TensorMethods::bitwise_xor(const Tensor& other) const {
  return ferrite::bitwise_xor(self(), other);
}
Tensor TensorMethods::isclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return ferrite::isclose(self(), other, rtol, atol, equal_nan);
}
bool TensorMethods::allclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return ferrite::allclose(self(), other, rtol, atol, equal_nan);
}
bool TensorMethods::equal(const Tensor& other) const { return ferrite::equal(self(), other); }
Tensor TensorMethods::maximum(const Tensor& other) const { return ferrite::maximum(self(), other); }
Tensor TensorMethods::minimum(const Tensor& other) const { return ferrite::minimum(self(), other); }
Tensor TensorMethods::where(const Tensor& condition, const Tensor& other) const {
  return ferrite::where(condition, self(), other);
}
Tensor TensorMethods::where(const Tensor& condition, Scalar other) const {
  return ferrite::where(condition, self(), other);
}
Tensor TensorMethods::clamp(std::optional<Scalar> min, std::optional<Scalar> max) const {
  return ferrite::clamp(self(), min, max);
}
Tensor TensorMethods::clamp_min(Scalar min) const { return ferrite::clamp_min(self(), min); }
Tensor TensorMethods::clamp_max(Scalar max) const { return ferrite::clamp_max(self(), max); }
Tensor TensorMethods::pow(Scalar exponent) const { return ferrite::pow(self(), exponent); }
Tensor TensorMethods::pow(const Tensor& exponent) const { return ferrite::pow(self(), exponent); }
const Tensor& TensorMethods::pow_(Scalar exponent) const { return ferrite::pow_(self(), exponent); }
const Tensor& TensorMethods::pow_(const Tensor& exponent) const {
  return ferrite::pow_(self(), exponent);
}
Tensor TensorMethods::floor_divide(const Tensor& other) const {
  return ferrite::floor_divide(self(), other);
}
Tensor TensorMethods::floor_divide(Scalar other) const {
  return ferrite::floor_divide(self(), other);
}
Tensor TensorMethods::remainder(const Tensor& other) const {
  return ferrite::remainder(self(), other);
}
Tensor TensorMethods::remainder(Scalar other) const { return ferrite::remainder(self(), other); }
Tensor TensorMethods::fmod(const Tensor& other) const { return ferrite::fmod(self(), other); }
Tensor TensorMethods::fmod(Scalar other) const { return ferrite::fmod(self(), other); }
Tensor TensorMethods::atan2(const Tensor& other) const { return ferrite::atan2(self(), other); }
Tensor TensorMethods::sum(const Dims& dims, bool keepdim, std::optional<DType> dtype) const {
  return ferrite::sum(self(), dims, keepdim, dtype);
}
Tensor TensorMethods::mean(const Dims& dims, bool keepdim, std::optional<DType> dtype) const {
  return ferrite::mean(self(), dims, keepdim, dtype);
}
Tensor TensorMethods::var(const Dims& dims, int correction, bool keepdim) const {
  return ferrite::var(self(), dims, correction, keepdim);
}
Tensor TensorMethods::std(const Dims& dims, int correction, bool keepdim) const {
  return ferrite::std(self(), dims, correction, keepdim);
}
Tensor TensorMethods::max() const { return ferrite::max(self()); }
Tensor TensorMethods::min() const { return ferrite::min(self()); }
ValuesIndices TensorMethods::max(int dim, bool keepdim) const {
  return ferrite::max(self(), dim, keepdim);
}
ValuesIndices TensorMethods::min(int dim, bool keepdim) const {
  return ferrite::min(self(), dim, keepdim);
}
Tensor TensorMethods::max(const Tensor& other) const { return ferrite::maximum(self(), other); }
Tensor TensorMethods::min(const Tensor& other) const { return ferrite::minimum(self(), other); }
Tensor TensorMethods::amax(const Dims& dims, bool keepdim) const {
  return ferrite::amax(self(), dims, keepdim);
}
Tensor TensorMethods::amin(const Dims& dims, bool keepdim) const {
  return ferrite::amin(self(), dims, keepdim);
}
Tensor TensorMethods::argmax(std::optional<int> dim, bool keepdim) const {
  return ferrite::argmax(self(), dim, keepdim);
}
Tensor TensorMethods::argmin(std::optional<int> dim, bool keepdim) const {
  return ferrite::argmin(self(), dim, keepdim);
}
Tensor TensorMethods::norm(double p, const Dims& dims, bool keepdim) const {
  return ferrite::norm(self(), p, dims, keepdim);
}
Tensor TensorMethods::prod() const { return ferrite::prod(self()); }
Tensor TensorMethods::prod(int dim, bool keepdim) const {
  return ferrite::prod(self(), dim, keepdim);
}
Tensor TensorMethods::any() const { return ferrite::any(self()); }
Tensor TensorMethods::any(int dim, bool keepdim) const {
  return ferrite::any(self(), dim, keepdim);
}
Tensor TensorMethods::all() const { return ferrite::all(self()); }
Tensor TensorMethods::all(int dim, bool keepdim) const {
  return ferrite::all(self(), dim, keepdim);
}
Tensor TensorMethods::count_nonzero(const Dims& dims) const {
  return ferrite::count_nonzero(self(), dims);
}
Tensor TensorMethods::cumsum(int dim, std::optional<DType> dtype) const {
  return ferrite::cumsum(self(), dim, dtype);
}
const Tensor& TensorMethods::cumsum_(int dim) const { return ferrite::cumsum_(self(), dim); }
ValuesIndices TensorMethods::topk(std::int64_t k, int dim, bool largest, bool sorted) const {
  return ferrite::topk(self(), k, dim, largest, sorted);
}
ValuesIndices TensorMethods::sort(int dim, bool descending) const {
  return ferrite::sort(self(), dim, descending);
}
Tensor TensorMethods::argsort(int dim, bool descending) const {
  return ferrite::argsort(self(), dim, descending);
}
Tensor TensorMethods::sum_to_size(const Shape& shape) const {
  return ferrite::sum_to(self(), shape);
}
Tensor TensorMethods::softmax(int dim, std::optional<DType> dtype) const {
  return ferrite::softmax(self(), dim, dtype);
}
Tensor TensorMethods::log_softmax(int dim, std::optional<DType> dtype) const {
  return ferrite::log_softmax(self(), dim, dtype);
}
Tensor TensorMethods::scatter(int dim, const Tensor& index, const Tensor& source) const {
  return ferrite::scatter(self(), dim, index, source);
}
Tensor TensorMethods::scatter(int dim, const Tensor& index, Scalar value) const {
  return ferrite::scatter(self(), dim, index, value);
}
Tensor TensorMethods::scatter_add(int dim, const Tensor& index, const Tensor& source) const {
  return ferrite::scatter_add(self(), dim, index, source);
}
Tensor TensorMethods::index_add(int dim, const Tensor& index, const Tensor& source,
                                Scalar alpha) const {
  return ferrite::index_add(self(), dim, index, source, alpha);
}
const Tensor& TensorMethods::scatter_(int dim, const Tensor& index, const Tensor& source) const {
  return ferrite::scatter_(self(), dim, index, source);
}
const Tensor& TensorMethods::scatter_(int dim, const Tensor& index, Scalar value) const {
  return ferrite::scatter_(self(), dim, index, value);
}
const Tensor& TensorMethods::scatter_add_(int dim, const Tensor& index,
                                          const Tensor& source) const {
  return ferrite::scatter_add_(self(), dim, index, source);
}
const Tensor& TensorMethods::index_add_(int dim, const Tensor& index, const Tensor& source,
                                        Scalar alpha) const {
  return ferrite::index_add_(self(), dim, index, source, alpha);
}
Tensor TensorMethods::masked_select(const Tensor& mask) const {
  return ferrite::masked_select(self(), mask);
}
Tensor TensorMethods::nonzero() const { return ferrite::nonzero(self()); }
Tensor TensorMethods::view_as(const Tensor& other) const { return ferrite::view_as(self(), other); }
Tensor TensorMethods::reshape_as(const Tensor& other) const {
  return ferrite::reshape_as(self(), other);
}
Tensor TensorMethods::expand_as(const Tensor& other) const {
  return ferrite::expand_as(self(), other);
}
Tensor TensorMethods::broadcast_to(const Shape& shape) const {
  return ferrite::broadcast_to(self(), shape);
}
Tensor TensorMethods::movedim(const Shape& source, const Shape& destination) const {
  return ferrite::movedim(self(), source, destination);
}
Tensor TensorMethods::movedim(int source, int destination) const {
  return ferrite::movedim(self(), source, destination);
}
Tensor TensorMethods::unflatten(int dim, const Shape& sizes) const {
  return ferrite::unflatten(self(), dim, sizes);
}
Tensor TensorMethods::diagonal(std::int64_t offset, int dim1, int dim2) const {
  return ferrite::diagonal(self(), offset, dim1, dim2);
}
Tensor TensorMethods::flip(const Dims& dims) const { return ferrite::flip(self(), dims); }
Tensor TensorMethods::roll(const Dims& shifts, const Dims& dims) const {
  return ferrite::roll(self(), shifts, dims);
}
Tensor TensorMethods::tril(std::int64_t diagonal) const { return ferrite::tril(self(), diagonal); }
Tensor TensorMethods::triu(std::int64_t diagonal) const { return ferrite::triu(self(), diagonal); }
std::vector<Tensor> TensorMethods::split(std::int64_t split_size, int dim) const {
  return ferrite::split(self(), split_size, dim);
}
std::vector<Tensor> TensorMethods::split(const std::vector<std::int64_t>& sizes, int dim) const {
  return ferrite::split(self(), sizes, dim);
}
std::vector<Tensor> TensorMethods::split_with_sizes(const std::vector<std::int64_t>& sizes,
                                                    int dim) const {
  return ferrite::split(self(), sizes, dim);
}
std::vector<Tensor> TensorMethods::chunk(std::int64_t chunks, int dim) const {
  return ferrite::chunk(self(), chunks, dim);
}
std::vector<Tensor> TensorMethods::unbind(int dim) const { return ferrite::unbind(self(), dim); }
Tensor TensorMethods::repeat(const Shape& repeats) const {
  return ferrite::repeat(self(), repeats);
}
Tensor TensorMethods::tile(const Shape& repeats) const { return ferrite::tile(self(), repeats); }

}  // namespace ferrite
