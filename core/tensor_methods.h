// The functions of ops/*.h that PyTorch also has as methods of a tensor. Each does what the
// function of its name does with this tensor as its first argument, where shapes, dtypes and errors
// are documented; the definitions are in ops/tensor_methods*.cpp. Base of Tensor alone; methods in
// place are in core/in_place_methods.h.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "ferrite/core/dtype.h"
#include "ferrite/core/in_place_methods.h"
#include "ferrite/core/scalar.h"
#include "ferrite/core/shape.h"

namespace ferrite {

class Tensor;
struct ValuesIndices;

/// The methods of Tensor that stand for functions.
class TensorMethods : public InPlaceMethods {
 public:
  // ---- ops/arithmetic.h
  Tensor add(const Tensor& other, Scalar alpha = 1) const;
  Tensor add(Scalar other) const;
  Tensor sub(const Tensor& other, Scalar alpha = 1) const;
  Tensor sub(Scalar other) const;
  Tensor mul(const Tensor& other) const;
  Tensor mul(Scalar other) const;
  Tensor div(const Tensor& other) const;
  Tensor div(Scalar other) const;
  Tensor div(const Tensor& other, std::string_view rounding_mode) const;
  Tensor div(Scalar other, std::string_view rounding_mode) const;

  // ---- ops/complex.h
  Tensor real() const;
  Tensor imag() const;
  Tensor conj() const;
  Tensor angle() const;

  // ---- ops/matmul.h
  Tensor matmul(const Tensor& other) const;
  Tensor mm(const Tensor& other) const;
  Tensor bmm(const Tensor& other) const;
  Tensor mv(const Tensor& vector) const;
  Tensor dot(const Tensor& other) const;
  Tensor outer(const Tensor& other) const;
  Tensor baddbmm(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1) const;
  Tensor addbmm(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1) const;
  Tensor addmv(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1) const;
  Tensor addr(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1) const;
  Tensor inner(const Tensor& other) const;
  Tensor kron(const Tensor& other) const;
  Tensor cross(const Tensor& other, std::optional<int> dim = {}) const;
  Tensor addmm(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1) const;

  // ---- ops/linalg.h
  Tensor det() const;
  std::tuple<Tensor, Tensor> slogdet() const;
  /// The logarithm of the determinant, [...] of [..., n, n]: NaN where that is negative, -infinity
  /// where it is 0. Errors as for linalg::slogdet().
  Tensor logdet() const;
  /// linalg::inv().
  Tensor inverse() const;
  /// linalg::pinv(), but that only singular values below `rcond` times the largest count as 0.
  Tensor pinverse(double rcond = 1e-15) const;
  Tensor matrix_power(std::int64_t n) const;
  Tensor cholesky_solve(const Tensor& factor, bool upper = false) const;
  Tensor cholesky_inverse(bool upper = false) const;
  /// u, s and v with u diag(s) v^T equal to this tensor, as torch.svd() has them: v [..., n, k] and
  /// not vh, and reduced factors unless `some` is false. Without `compute_uv` u [..., m, m] and v
  /// [..., n, n] are zeros. linalg::svd() describes shapes, gradients and errors.
  ///
  ///   auto [u, s, v] = x.svd();  // of [5, 3]: [5, 3], [3] and [3, 3]
  std::tuple<Tensor, Tensor, Tensor> svd(bool some = true, bool compute_uv = true) const;

  // ---- ops/unary.h, ops/activation.h
  Tensor neg() const;
  Tensor abs() const;
  Tensor sign() const;
  Tensor square() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;
  Tensor trunc() const;
  Tensor exp() const;
  Tensor exp2() const;
  Tensor expm1() const;
  Tensor log() const;
  Tensor log1p() const;
  Tensor log2() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor reciprocal() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tan() const;
  Tensor tanh() const;
  Tensor erf() const;
  Tensor sigmoid() const;
  Tensor relu() const;
  Tensor asin() const;
  Tensor acos() const;
  Tensor atan() const;
  Tensor sinh() const;
  Tensor cosh() const;
  Tensor asinh() const;
  Tensor acosh() const;
  Tensor atanh() const;
  Tensor log10() const;
  Tensor erfc() const;
  Tensor erfinv() const;
  Tensor lgamma() const;
  Tensor digamma() const;
  Tensor polygamma(std::int64_t n) const;
  Tensor mvlgamma(std::int64_t p) const;
  Tensor sinc() const;
  Tensor deg2rad() const;
  Tensor rad2deg() const;
  Tensor frac() const;
  Tensor logit(std::optional<double> eps = {}) const;
  Tensor nan_to_num(double nan = 0, std::optional<double> posinf = {},
                    std::optional<double> neginf = {}) const;
  Tensor positive() const;
  Tensor sgn() const;
  Tensor signbit() const;
  Tensor isnan() const;
  Tensor isinf() const;
  Tensor isfinite() const;
  Tensor logical_not() const;
  Tensor bitwise_not() const;

  // ---- ops/compare.h
  Tensor eq(const Tensor& other) const;
  Tensor eq(Scalar other) const;
  Tensor ne(const Tensor& other) const;
  Tensor ne(Scalar other) const;
  Tensor lt(const Tensor& other) const;
  Tensor lt(Scalar other) const;
  Tensor le(const Tensor& other) const;
  Tensor le(Scalar other) const;
  Tensor gt(const Tensor& other) const;
  Tensor gt(Scalar other) const;
  Tensor ge(const Tensor& other) const;
  Tensor ge(Scalar other) const;
  Tensor logical_and(const Tensor& other) const;
  Tensor logical_or(const Tensor& other) const;
  Tensor logical_xor(const Tensor& other) const;
  Tensor bitwise_and(const Tensor& other) const;
  Tensor bitwise_and(Scalar other) const;
  Tensor bitwise_or(const Tensor& other) const;
  Tensor bitwise_or(Scalar other) const;
  Tensor bitwise_xor(const Tensor& other) const;
  Tensor bitwise_xor(Scalar other) const;
  Tensor bitwise_left_shift(const Tensor& other) const;
  Tensor bitwise_left_shift(Scalar other) const;
  Tensor bitwise_right_shift(const Tensor& other) const;
  Tensor bitwise_right_shift(Scalar other) const;
  Tensor isclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                 bool equal_nan = false) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false) const;
  bool equal(const Tensor& other) const;
  Tensor maximum(const Tensor& other) const;
  Tensor minimum(const Tensor& other) const;
  /// This tensor where `condition` is true, else `other`.
  Tensor where(const Tensor& condition, const Tensor& other) const;
  Tensor where(const Tensor& condition, Scalar other) const;
  Tensor clamp(std::optional<Scalar> min, std::optional<Scalar> max = {}) const;
  Tensor clamp(const Tensor& min) const;
  Tensor clamp(const Tensor& min, const Tensor& max) const;
  Tensor clamp_min(Scalar min) const;
  Tensor clamp_min(const Tensor& min) const;
  Tensor clamp_max(Scalar max) const;
  Tensor clamp_max(const Tensor& max) const;
  Tensor pow(Scalar exponent) const;
  Tensor pow(const Tensor& exponent) const;
  Tensor floor_divide(const Tensor& other) const;
  Tensor floor_divide(Scalar other) const;
  Tensor remainder(const Tensor& other) const;
  Tensor remainder(Scalar other) const;
  Tensor fmod(const Tensor& other) const;
  Tensor fmod(Scalar other) const;
  Tensor hypot(const Tensor& other) const;
  Tensor logaddexp(const Tensor& other) const;
  Tensor logaddexp2(const Tensor& other) const;
  Tensor heaviside(const Tensor& other) const;
  Tensor copysign(const Tensor& other) const;
  Tensor copysign(Scalar other) const;
  Tensor xlogy(const Tensor& other) const;
  Tensor xlogy(Scalar other) const;
  Tensor lerp(const Tensor& end, const Tensor& weight) const;
  Tensor lerp(const Tensor& end, Scalar weight) const;
  Tensor addcmul(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  Tensor addcdiv(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  Tensor atan2(const Tensor& other) const;

  // ---- ops/reduce.h, ops/softmax.h
  Tensor sum(const Dims& dims = {}, bool keepdim = false, std::optional<DType> dtype = {}) const;
  // A template, so that sum({}) still means a list of dimensions.
  template <std::same_as<DType> D>
  Tensor sum(D dtype) const;
  Tensor mean(const Dims& dims = {}, bool keepdim = false, std::optional<DType> dtype = {}) const;
  template <std::same_as<DType> D>
  Tensor mean(D dtype) const;
  Tensor var(const Dims& dims = {}, int correction = 1, bool keepdim = false) const;
  Tensor std(const Dims& dims = {}, int correction = 1, bool keepdim = false) const;
  /// `unbiased`: whether the divisor is n - 1.
  template <std::same_as<bool> B>
  Tensor var(B unbiased) const;
  template <std::same_as<bool> B>
  Tensor std(B unbiased) const;
  Tensor max() const;
  Tensor min() const;
  ValuesIndices max(int dim, bool keepdim = false) const;
  ValuesIndices min(int dim, bool keepdim = false) const;
  Tensor max(const Tensor& other) const;
  Tensor min(const Tensor& other) const;
  Tensor amax(const Dims& dims = {}, bool keepdim = false) const;
  Tensor amin(const Dims& dims = {}, bool keepdim = false) const;
  Tensor argmax(std::optional<int> dim = {}, bool keepdim = false) const;
  Tensor argmin(std::optional<int> dim = {}, bool keepdim = false) const;
  Tensor norm(double p = 2, const Dims& dims = {}, bool keepdim = false) const;
  Tensor norm(std::string_view p, const Dims& dims = {}, bool keepdim = false) const;
  Tensor renorm(double p, int dim, double maxnorm) const;
  Tensor prod() const;
  Tensor prod(int dim, bool keepdim = false) const;
  Tensor any() const;
  Tensor any(int dim, bool keepdim = false) const;
  Tensor all() const;
  Tensor all(int dim, bool keepdim = false) const;
  Tensor count_nonzero(const Dims& dims = {}) const;
  Tensor cumsum(int dim, std::optional<DType> dtype = {}) const;
  Tensor logsumexp(const Dims& dims = {}, bool keepdim = false) const;
  Tensor nansum(const Dims& dims = {}, bool keepdim = false, std::optional<DType> dtype = {}) const;
  Tensor nanmean(const Dims& dims = {}, bool keepdim = false) const;
  std::tuple<Tensor, Tensor> aminmax(std::optional<int> dim = {}, bool keepdim = false) const;
  Tensor trace() const;
  Tensor diff(std::int64_t n = 1, int dim = -1) const;
  Tensor cumprod(int dim, std::optional<DType> dtype = {}) const;
  Tensor logcumsumexp(int dim) const;
  ValuesIndices cummax(int dim) const;
  ValuesIndices cummin(int dim) const;
  ValuesIndices topk(std::int64_t k, int dim = -1, bool largest = true, bool sorted = true) const;
  ValuesIndices sort(int dim = -1, bool descending = false) const;
  ValuesIndices sort(std::optional<bool> stable, int dim, bool descending) const;
  Tensor argsort(int dim = -1, bool descending = false) const;
  Tensor argsort(bool stable, int dim, bool descending) const;
  Tensor median() const;
  ValuesIndices median(int dim, bool keepdim = false) const;
  Tensor nanmedian() const;
  ValuesIndices nanmedian(int dim, bool keepdim = false) const;
  ValuesIndices kthvalue(std::int64_t k, int dim = -1, bool keepdim = false) const;
  ValuesIndices mode(int dim = -1, bool keepdim = false) const;
  Tensor quantile(double q, std::optional<int> dim = {}, bool keepdim = false) const;
  Tensor quantile(const Tensor& q, std::optional<int> dim = {}, bool keepdim = false) const;
  Tensor nanquantile(double q, std::optional<int> dim = {}, bool keepdim = false) const;
  Tensor nanquantile(const Tensor& q, std::optional<int> dim = {}, bool keepdim = false) const;
  Tensor histc(std::int64_t bins = 100, double min = 0, double max = 0) const;
  Tensor bincount() const;
  Tensor bincount(const Tensor& weights, std::int64_t minlength = 0) const;
  /// The sum to this shape, which undoes a broadcast; see ferrite::sum_to(). ShapeError if `shape`
  /// does not broadcast to that of this tensor.
  Tensor sum_to_size(const Shape& shape) const;
  Tensor softmax(int dim, std::optional<DType> dtype = {}) const;
  Tensor log_softmax(int dim, std::optional<DType> dtype = {}) const;

  // ---- ops/index.h
  Tensor scatter(int dim, const Tensor& index, const Tensor& source) const;
  Tensor scatter(int dim, const Tensor& index, Scalar value) const;
  Tensor scatter_add(int dim, const Tensor& index, const Tensor& source) const;
  Tensor index_add(int dim, const Tensor& index, const Tensor& source, Scalar alpha = 1) const;
  Tensor take_along_dim(const Tensor& index, std::optional<int> dim = {}) const;
  Tensor take(const Tensor& index) const;
  Tensor index_copy(int dim, const Tensor& index, const Tensor& source) const;
  Tensor index_fill(int dim, const Tensor& index, Scalar value) const;
  Tensor masked_scatter(const Tensor& mask, const Tensor& source) const;
  Tensor scatter_reduce(int dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                        bool include_self = true) const;
  Tensor index_reduce(int dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                      bool include_self = true) const;
  Tensor multinomial(std::int64_t num_samples, bool replacement = false) const;
  Tensor masked_select(const Tensor& mask) const;
  Tensor nonzero() const;

  // ---- ops/views.h, ops/rearrange.h, ops/concat.h
  Tensor view_as(const Tensor& other) const;
  Tensor reshape_as(const Tensor& other) const;
  Tensor expand_as(const Tensor& other) const;
  Tensor broadcast_to(const Shape& shape) const;
  Tensor movedim(const Shape& source, const Shape& destination) const;
  Tensor movedim(int source, int destination) const;
  Tensor unflatten(int dim, const Shape& sizes) const;
  Tensor diagonal(std::int64_t offset = 0, int dim1 = 0, int dim2 = 1) const;
  Tensor flip(const Dims& dims) const;
  template <Size... Dimensions>
  Tensor flip(Dimensions... dims) const;
  Tensor roll(const Dims& shifts, const Dims& dims = {}) const;
  Tensor tril(std::int64_t diagonal = 0) const;
  Tensor triu(std::int64_t diagonal = 0) const;
  std::vector<Tensor> split(std::int64_t split_size, int dim = 0) const;
  std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, int dim = 0) const;
  /// As split() with these sizes; see ferrite::split().
  std::vector<Tensor> split_with_sizes(const std::vector<std::int64_t>& sizes, int dim = 0) const;
  std::vector<Tensor> chunk(std::int64_t chunks, int dim = 0) const;
  std::vector<Tensor> unbind(int dim = 0) const;
  Tensor repeat_interleave(std::int64_t repeats, std::optional<int> dim = {}) const;
  Tensor repeat_interleave(const Tensor& repeats, std::optional<int> dim = {}) const;
  Tensor diag(std::int64_t diagonal = 0) const;
  Tensor diag_embed(std::int64_t offset = 0, int dim1 = -2, int dim2 = -1) const;
  Tensor swapaxes(int dim0, int dim1) const;
  Tensor swapdims(int dim0, int dim1) const;
  Tensor ravel() const;
  Tensor rot90(std::int64_t k = 1, const Dims& dims = {0, 1}) const;
  std::vector<Tensor> tensor_split(std::int64_t sections, int dim = 0) const;
  std::vector<Tensor> tensor_split(const std::vector<std::int64_t>& indices, int dim = 0) const;
  Tensor repeat(const Shape& repeats) const;
  template <Size... Repeats>
  Tensor repeat(Repeats... repeats) const;
  Tensor tile(const Shape& repeats) const;

  // ---- ops/compare.h, ops/samples.h, ops/activation.h, ops/creation.h: further functions
  Tensor fmax(const Tensor& other) const;
  Tensor fmin(const Tensor& other) const;
  Tensor float_power(const Tensor& exponent) const;
  Tensor float_power(Scalar exponent) const;
  Tensor isposinf() const;
  Tensor isneginf() const;
  Tensor isreal() const;
  Tensor vdot(const Tensor& other) const;
  /// The p-norm of the difference, which broadcasts. There is no function of this name, because
  /// `dist` is a namespace.
  Tensor dist(const Tensor& other, double p = 2) const;
  Tensor cov(int correction = 1) const;
  Tensor corrcoef() const;
  Tensor msort() const;
  Tensor bernoulli() const;
  Tensor prelu(const Tensor& weight) const;
  Tensor hardshrink(double lambda = 0.5) const;
  // ---- ops/arrange.h, ops/place.h
  /// The conjugate of mT().
  Tensor adjoint() const;
  Tensor fliplr() const;
  Tensor flipud() const;
  Tensor diagflat(std::int64_t offset = 0) const;
  std::vector<Tensor> hsplit(std::int64_t sections) const;
  std::vector<Tensor> hsplit(const std::vector<std::int64_t>& indices) const;
  std::vector<Tensor> vsplit(std::int64_t sections) const;
  std::vector<Tensor> vsplit(const std::vector<std::int64_t>& indices) const;
  std::vector<Tensor> dsplit(std::int64_t sections) const;
  std::vector<Tensor> dsplit(const std::vector<std::int64_t>& indices) const;
  Tensor select_scatter(const Tensor& source, int dim, std::int64_t index) const;
  Tensor slice_scatter(const Tensor& source, int dim = 0, std::int64_t start = 0,
                       std::int64_t end = INT64_MAX, std::int64_t step = 1) const;
  Tensor diagonal_scatter(const Tensor& source, std::int64_t offset = 0, int dim1 = 0,
                          int dim2 = 1) const;
  Tensor argwhere() const;

  // ---- ops/aliases.h
  Tensor absolute() const;
  Tensor negative() const;
  Tensor arccos() const;
  Tensor arcsin() const;
  Tensor arctan() const;
  Tensor arccosh() const;
  Tensor arcsinh() const;
  Tensor arctanh() const;
  Tensor fix() const;
  Tensor subtract(const Tensor& other, Scalar alpha = 1) const;
  Tensor subtract(Scalar other) const;
  Tensor multiply(const Tensor& other) const;
  Tensor multiply(Scalar other) const;
  Tensor divide(const Tensor& other) const;
  Tensor divide(Scalar other) const;
  Tensor true_divide(const Tensor& other) const;
  Tensor true_divide(Scalar other) const;
  Tensor greater(const Tensor& other) const;
  Tensor greater(Scalar other) const;
  Tensor greater_equal(const Tensor& other) const;
  Tensor greater_equal(Scalar other) const;
  Tensor less(const Tensor& other) const;
  Tensor less(Scalar other) const;
  Tensor less_equal(const Tensor& other) const;
  Tensor less_equal(Scalar other) const;
  Tensor not_equal(const Tensor& other) const;
  Tensor not_equal(Scalar other) const;
  Tensor arctan2(const Tensor& other) const;
  Tensor clip(std::optional<Scalar> min, std::optional<Scalar> max = {}) const;
  Tensor ger(const Tensor& other) const;
  Tensor moveaxis(const Shape& source, const Shape& destination) const;
  Tensor moveaxis(int source, int destination) const;

 private:
  friend class Tensor;
  TensorMethods() = default;  // of Tensor alone
};

}  // namespace ferrite
