// The methods of core/tensor_methods.h: each calls the function of its name. Those of one tensor
// alone, element by element, are in ops/tensor_methods_unary.cpp.
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/blend.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/products.h"
#include "ferrite/ops/quantile.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
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
Tensor TensorMethods::real() const { return ferrite::real(self()); }
Tensor TensorMethods::imag() const { return ferrite::imag(self()); }
Tensor TensorMethods::conj() const { return ferrite::conj(self()); }
Tensor TensorMethods::angle() const { return ferrite::angle(self()); }
Tensor TensorMethods::matmul(const Tensor& other) const { return ferrite::matmul(self(), other); }
Tensor TensorMethods::mm(const Tensor& other) const { return ferrite::mm(self(), other); }
Tensor TensorMethods::bmm(const Tensor& other) const { return ferrite::bmm(self(), other); }
Tensor TensorMethods::mv(const Tensor& vector) const { return ferrite::mv(self(), vector); }
Tensor TensorMethods::dot(const Tensor& other) const { return ferrite::dot(self(), other); }
Tensor TensorMethods::outer(const Tensor& other) const { return ferrite::outer(self(), other); }
Tensor TensorMethods::addmm(const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) const {
  return ferrite::addmm(self(), a, b, beta, alpha);
}
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
Tensor TensorMethods::bitwise_left_shift(const Tensor& other) const {
  return ferrite::bitwise_left_shift(self(), other);
}
Tensor TensorMethods::bitwise_left_shift(Scalar other) const {
  return ferrite::bitwise_left_shift(self(), other);
}
Tensor TensorMethods::bitwise_right_shift(const Tensor& other) const {
  return ferrite::bitwise_right_shift(self(), other);
}
Tensor TensorMethods::bitwise_right_shift(Scalar other) const {
  return ferrite::bitwise_right_shift(self(), other);
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
Tensor TensorMethods::clamp(const Tensor& min) const { return ferrite::clamp(self(), min); }
Tensor TensorMethods::clamp(const Tensor& min, const Tensor& max) const {
  return ferrite::clamp(self(), min, max);
}
Tensor TensorMethods::clamp_min(const Tensor& min) const { return ferrite::clamp_min(self(), min); }
Tensor TensorMethods::clamp_max(const Tensor& max) const { return ferrite::clamp_max(self(), max); }
Tensor TensorMethods::clamp_min(Scalar min) const { return ferrite::clamp_min(self(), min); }
Tensor TensorMethods::clamp_max(Scalar max) const { return ferrite::clamp_max(self(), max); }
Tensor TensorMethods::pow(Scalar exponent) const { return ferrite::pow(self(), exponent); }
Tensor TensorMethods::pow(const Tensor& exponent) const { return ferrite::pow(self(), exponent); }
const Tensor& InPlaceMethods::pow_(Scalar exponent) const {
  return ferrite::pow_(self(), exponent);
}
const Tensor& InPlaceMethods::pow_(const Tensor& exponent) const {
  return ferrite::pow_(self(), exponent);
}
Tensor TensorMethods::div(const Tensor& other, std::string_view rounding_mode) const {
  return ferrite::div(self(), other, rounding_mode);
}
Tensor TensorMethods::div(Scalar other, std::string_view rounding_mode) const {
  return ferrite::div(self(), other, rounding_mode);
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
Tensor TensorMethods::norm(std::string_view p, const Dims& dims, bool keepdim) const {
  return ferrite::norm(self(), p, dims, keepdim);
}
Tensor TensorMethods::renorm(double p, int dim, double maxnorm) const {
  return ferrite::renorm(self(), p, dim, maxnorm);
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
const Tensor& InPlaceMethods::cumsum_(int dim) const { return ferrite::cumsum_(self(), dim); }
ValuesIndices TensorMethods::topk(std::int64_t k, int dim, bool largest, bool sorted) const {
  return ferrite::topk(self(), k, dim, largest, sorted);
}
ValuesIndices TensorMethods::sort(int dim, bool descending) const {
  return ferrite::sort(self(), dim, descending);
}
ValuesIndices TensorMethods::sort(std::optional<bool> stable, int dim, bool descending) const {
  return ferrite::sort(self(), stable, dim, descending);
}
Tensor TensorMethods::argsort(int dim, bool descending) const {
  return ferrite::argsort(self(), dim, descending);
}
Tensor TensorMethods::argsort(bool stable, int dim, bool descending) const {
  return ferrite::argsort(self(), stable, dim, descending);
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
const Tensor& InPlaceMethods::scatter_(int dim, const Tensor& index, const Tensor& source) const {
  return ferrite::scatter_(self(), dim, index, source);
}
const Tensor& InPlaceMethods::scatter_(int dim, const Tensor& index, Scalar value) const {
  return ferrite::scatter_(self(), dim, index, value);
}
const Tensor& InPlaceMethods::scatter_add_(int dim, const Tensor& index,
                                           const Tensor& source) const {
  return ferrite::scatter_add_(self(), dim, index, source);
}
const Tensor& InPlaceMethods::index_add_(int dim, const Tensor& index, const Tensor& source,
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

Tensor TensorMethods::hypot(const Tensor& other) const { return ferrite::hypot(self(), other); }
Tensor TensorMethods::logaddexp(const Tensor& other) const {
  return ferrite::logaddexp(self(), other);
}
Tensor TensorMethods::logaddexp2(const Tensor& other) const {
  return ferrite::logaddexp2(self(), other);
}
Tensor TensorMethods::heaviside(const Tensor& other) const {
  return ferrite::heaviside(self(), other);
}
Tensor TensorMethods::copysign(const Tensor& other) const {
  return ferrite::copysign(self(), other);
}
Tensor TensorMethods::copysign(Scalar other) const { return ferrite::copysign(self(), other); }
Tensor TensorMethods::xlogy(const Tensor& other) const { return ferrite::xlogy(self(), other); }
Tensor TensorMethods::xlogy(Scalar other) const { return ferrite::xlogy(self(), other); }
Tensor TensorMethods::lerp(const Tensor& end, const Tensor& weight) const {
  return ferrite::lerp(self(), end, weight);
}
Tensor TensorMethods::lerp(const Tensor& end, Scalar weight) const {
  return ferrite::lerp(self(), end, weight);
}
Tensor TensorMethods::addcmul(const Tensor& a, const Tensor& b, Scalar value) const {
  return ferrite::addcmul(self(), a, b, value);
}
Tensor TensorMethods::addcdiv(const Tensor& a, const Tensor& b, Scalar value) const {
  return ferrite::addcdiv(self(), a, b, value);
}
const Tensor& InPlaceMethods::lerp_(const Tensor& end, const Tensor& weight) const {
  return ferrite::lerp_(self(), end, weight);
}
const Tensor& InPlaceMethods::lerp_(const Tensor& end, Scalar weight) const {
  return ferrite::lerp_(self(), end, weight);
}
const Tensor& InPlaceMethods::addcmul_(const Tensor& a, const Tensor& b, Scalar value) const {
  return ferrite::addcmul_(self(), a, b, value);
}
const Tensor& InPlaceMethods::addcdiv_(const Tensor& a, const Tensor& b, Scalar value) const {
  return ferrite::addcdiv_(self(), a, b, value);
}
Tensor TensorMethods::baddbmm(const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) const {
  return ferrite::baddbmm(self(), a, b, beta, alpha);
}
Tensor TensorMethods::addbmm(const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) const {
  return ferrite::addbmm(self(), a, b, beta, alpha);
}
Tensor TensorMethods::addmv(const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) const {
  return ferrite::addmv(self(), a, b, beta, alpha);
}
Tensor TensorMethods::addr(const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) const {
  return ferrite::addr(self(), a, b, beta, alpha);
}
Tensor TensorMethods::inner(const Tensor& other) const { return ferrite::inner(self(), other); }
Tensor TensorMethods::kron(const Tensor& other) const { return ferrite::kron(self(), other); }
Tensor TensorMethods::cross(const Tensor& other, std::optional<int> dim) const {
  return ferrite::cross(self(), other, dim);
}
Tensor TensorMethods::logsumexp(const Dims& dims, bool keepdim) const {
  return ferrite::logsumexp(self(), dims, keepdim);
}
Tensor TensorMethods::nansum(const Dims& dims, bool keepdim, std::optional<DType> dtype) const {
  return ferrite::nansum(self(), dims, keepdim, dtype);
}
Tensor TensorMethods::nanmean(const Dims& dims, bool keepdim) const {
  return ferrite::nanmean(self(), dims, keepdim);
}
std::tuple<Tensor, Tensor> TensorMethods::aminmax(std::optional<int> dim, bool keepdim) const {
  return ferrite::aminmax(self(), dim, keepdim);
}
Tensor TensorMethods::trace() const { return ferrite::trace(self()); }
Tensor TensorMethods::diff(std::int64_t n, int dim) const { return ferrite::diff(self(), n, dim); }
Tensor TensorMethods::cumprod(int dim, std::optional<DType> dtype) const {
  return ferrite::cumprod(self(), dim, dtype);
}
const Tensor& InPlaceMethods::cumprod_(int dim) const { return ferrite::cumprod_(self(), dim); }
Tensor TensorMethods::logcumsumexp(int dim) const { return ferrite::logcumsumexp(self(), dim); }
ValuesIndices TensorMethods::cummax(int dim) const { return ferrite::cummax(self(), dim); }
ValuesIndices TensorMethods::cummin(int dim) const { return ferrite::cummin(self(), dim); }
Tensor TensorMethods::median() const { return ferrite::median(self()); }
ValuesIndices TensorMethods::median(int dim, bool keepdim) const {
  return ferrite::median(self(), dim, keepdim);
}
Tensor TensorMethods::nanmedian() const { return ferrite::nanmedian(self()); }
ValuesIndices TensorMethods::nanmedian(int dim, bool keepdim) const {
  return ferrite::nanmedian(self(), dim, keepdim);
}
ValuesIndices TensorMethods::kthvalue(std::int64_t k, int dim, bool keepdim) const {
  return ferrite::kthvalue(self(), k, dim, keepdim);
}
ValuesIndices TensorMethods::mode(int dim, bool keepdim) const {
  return ferrite::mode(self(), dim, keepdim);
}
Tensor TensorMethods::quantile(double q, std::optional<int> dim, bool keepdim) const {
  return ferrite::quantile(self(), q, dim, keepdim);
}
Tensor TensorMethods::quantile(const Tensor& q, std::optional<int> dim, bool keepdim) const {
  return ferrite::quantile(self(), q, dim, keepdim);
}
Tensor TensorMethods::nanquantile(double q, std::optional<int> dim, bool keepdim) const {
  return ferrite::nanquantile(self(), q, dim, keepdim);
}
Tensor TensorMethods::nanquantile(const Tensor& q, std::optional<int> dim, bool keepdim) const {
  return ferrite::nanquantile(self(), q, dim, keepdim);
}
Tensor TensorMethods::histc(std::int64_t bins, double min, double max) const {
  return ferrite::histc(self(), bins, min, max);
}
Tensor TensorMethods::bincount() const { return ferrite::bincount(self()); }
Tensor TensorMethods::bincount(const Tensor& weights, std::int64_t minlength) const {
  return ferrite::bincount(self(), weights, minlength);
}
Tensor TensorMethods::take_along_dim(const Tensor& index, std::optional<int> dim) const {
  return ferrite::take_along_dim(self(), index, dim);
}
Tensor TensorMethods::take(const Tensor& index) const { return ferrite::take(self(), index); }
Tensor TensorMethods::index_copy(int dim, const Tensor& index, const Tensor& source) const {
  return ferrite::index_copy(self(), dim, index, source);
}
Tensor TensorMethods::index_fill(int dim, const Tensor& index, Scalar value) const {
  return ferrite::index_fill(self(), dim, index, value);
}
Tensor TensorMethods::masked_scatter(const Tensor& mask, const Tensor& source) const {
  return ferrite::masked_scatter(self(), mask, source);
}
Tensor TensorMethods::scatter_reduce(int dim, const Tensor& index, const Tensor& source,
                                     std::string_view reduce, bool include_self) const {
  return ferrite::scatter_reduce(self(), dim, index, source, reduce, include_self);
}
Tensor TensorMethods::index_reduce(int dim, const Tensor& index, const Tensor& source,
                                   std::string_view reduce, bool include_self) const {
  return ferrite::index_reduce(self(), dim, index, source, reduce, include_self);
}
const Tensor& InPlaceMethods::index_reduce_(int dim, const Tensor& index, const Tensor& source,
                                            std::string_view reduce, bool include_self) const {
  return ferrite::index_reduce_(self(), dim, index, source, reduce, include_self);
}
const Tensor& InPlaceMethods::index_copy_(int dim, const Tensor& index,
                                          const Tensor& source) const {
  return ferrite::index_copy_(self(), dim, index, source);
}
const Tensor& InPlaceMethods::index_fill_(int dim, const Tensor& index, Scalar value) const {
  return ferrite::index_fill_(self(), dim, index, value);
}
const Tensor& InPlaceMethods::masked_scatter_(const Tensor& mask, const Tensor& source) const {
  return ferrite::masked_scatter_(self(), mask, source);
}
const Tensor& InPlaceMethods::scatter_reduce_(int dim, const Tensor& index, const Tensor& source,
                                              std::string_view reduce, bool include_self) const {
  return ferrite::scatter_reduce_(self(), dim, index, source, reduce, include_self);
}
Tensor TensorMethods::multinomial(std::int64_t num_samples, bool replacement) const {
  return ferrite::multinomial(self(), num_samples, replacement);
}
Tensor TensorMethods::repeat_interleave(std::int64_t repeats, std::optional<int> dim) const {
  return ferrite::repeat_interleave(self(), repeats, dim);
}
Tensor TensorMethods::repeat_interleave(const Tensor& repeats, std::optional<int> dim) const {
  return ferrite::repeat_interleave(self(), repeats, dim);
}
Tensor TensorMethods::diag(std::int64_t diagonal) const { return ferrite::diag(self(), diagonal); }
Tensor TensorMethods::diag_embed(std::int64_t offset, int dim1, int dim2) const {
  return ferrite::diag_embed(self(), offset, dim1, dim2);
}
Tensor TensorMethods::swapaxes(int dim0, int dim1) const {
  return ferrite::swapaxes(self(), dim0, dim1);
}
Tensor TensorMethods::swapdims(int dim0, int dim1) const {
  return ferrite::swapdims(self(), dim0, dim1);
}
Tensor TensorMethods::ravel() const { return ferrite::ravel(self()); }
Tensor TensorMethods::rot90(std::int64_t k, const Dims& dims) const {
  return ferrite::rot90(self(), k, dims);
}
std::vector<Tensor> TensorMethods::tensor_split(std::int64_t sections, int dim) const {
  return ferrite::tensor_split(self(), sections, dim);
}
std::vector<Tensor> TensorMethods::tensor_split(const std::vector<std::int64_t>& indices,
                                                int dim) const {
  return ferrite::tensor_split(self(), indices, dim);
}

}  // namespace ferrite
