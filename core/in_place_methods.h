// The methods of Tensor that work in place, whose names end in _: each writes the result of the
// function of its name, where shapes and errors are documented, into this tensor, and returns the
// tensor. The definitions are in ops/tensor_methods*.cpp. Base of Tensor alone.
//
// Shape and dtype stay, except in those that stand for views: ShapeError if the result would be
// larger, DTypeError if the dtype cannot hold it, as integers cannot hold what exp_() gives.
// ValueError if several elements share memory, as after expand(). The change is recorded on the
// tape.
//
// While operations are recorded, changing a leaf that requires a gradient, or a view of one, is an
// AutogradError: change it under no_grad, as optimizers do. The same holds for a view that was made
// under no_grad of a tensor that requires a gradient, and for an inference tensor outside of
// InferenceMode. backward() throws an AutogradError if an operation recorded before the change
// needs the old values.
//
//   no_grad([&] { weight.relu_(); });
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ferrite/core/scalar.h"
#include "ferrite/core/shape.h"

namespace ferrite {

class Tensor;

/// The methods of Tensor that work in place.
class InPlaceMethods {
 public:
  // ---- ops/unary.h, ops/activation.h
  const Tensor& neg_() const;
  const Tensor& abs_() const;
  const Tensor& sign_() const;
  const Tensor& square_() const;
  const Tensor& floor_() const;
  const Tensor& ceil_() const;
  const Tensor& round_() const;
  const Tensor& trunc_() const;
  const Tensor& exp_() const;
  const Tensor& exp2_() const;
  const Tensor& expm1_() const;
  const Tensor& log_() const;
  const Tensor& log1p_() const;
  const Tensor& log2_() const;
  const Tensor& sqrt_() const;
  const Tensor& rsqrt_() const;
  const Tensor& reciprocal_() const;
  const Tensor& sin_() const;
  const Tensor& cos_() const;
  const Tensor& tan_() const;
  const Tensor& tanh_() const;
  const Tensor& erf_() const;
  const Tensor& asin_() const;
  const Tensor& acos_() const;
  const Tensor& atan_() const;
  const Tensor& sinh_() const;
  const Tensor& cosh_() const;
  const Tensor& asinh_() const;
  const Tensor& acosh_() const;
  const Tensor& atanh_() const;
  const Tensor& log10_() const;
  const Tensor& erfc_() const;
  const Tensor& sinc_() const;
  const Tensor& deg2rad_() const;
  const Tensor& rad2deg_() const;
  const Tensor& frac_() const;
  const Tensor& logit_(std::optional<double> eps = {}) const;
  const Tensor& nan_to_num_(double nan = 0, std::optional<double> posinf = {},
                            std::optional<double> neginf = {}) const;
  const Tensor& sgn_() const;
  const Tensor& sigmoid_() const;
  const Tensor& relu_() const;

  // ---- ops/compare.h
  const Tensor& pow_(Scalar exponent) const;
  const Tensor& pow_(const Tensor& exponent) const;
  const Tensor& lerp_(const Tensor& end, const Tensor& weight) const;
  const Tensor& lerp_(const Tensor& end, Scalar weight) const;
  const Tensor& addcmul_(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  const Tensor& addcdiv_(const Tensor& a, const Tensor& b, Scalar value = 1) const;

  // ---- ops/reduce.h, ops/softmax.h
  const Tensor& cumsum_(int dim) const;
  const Tensor& cumprod_(int dim) const;

  // ---- ops/index.h
  const Tensor& scatter_(int dim, const Tensor& index, const Tensor& source) const;
  const Tensor& scatter_(int dim, const Tensor& index, Scalar value) const;
  const Tensor& scatter_add_(int dim, const Tensor& index, const Tensor& source) const;
  const Tensor& index_add_(int dim, const Tensor& index, const Tensor& source,
                           Scalar alpha = 1) const;
  const Tensor& index_reduce_(int dim, const Tensor& index, const Tensor& source,
                              std::string_view reduce, bool include_self = true) const;
  const Tensor& index_copy_(int dim, const Tensor& index, const Tensor& source) const;
  const Tensor& index_fill_(int dim, const Tensor& index, Scalar value) const;
  const Tensor& masked_scatter_(const Tensor& mask, const Tensor& source) const;
  const Tensor& scatter_reduce_(int dim, const Tensor& index, const Tensor& source,
                                std::string_view reduce, bool include_self = true) const;

  // ---- In place, as the function without _ does it
  const Tensor& clamp_min_(Scalar min) const;
  const Tensor& clamp_max_(Scalar max) const;
  const Tensor& tril_(std::int64_t diagonal = 0) const;
  const Tensor& triu_(std::int64_t diagonal = 0) const;
  const Tensor& floor_divide_(const Tensor& other) const;
  const Tensor& floor_divide_(Scalar other) const;
  const Tensor& remainder_(const Tensor& other) const;
  const Tensor& remainder_(Scalar other) const;
  const Tensor& fmod_(const Tensor& other) const;
  const Tensor& fmod_(Scalar other) const;

  // ---- In place alone
  /// Writes the value to the main diagonal, of min(rows, columns) elements. ShapeError unless there
  /// are 2 dimensions, or more of one size.
  const Tensor& fill_diagonal_(Scalar value) const;
  /// Exponentially distributed values above 0, of the density lambd * exp(-lambd * x); a dtype of
  /// 16 bits may round small ones to 0. Errors as of uniform_(), and ValueError unless lambd > 0.
  const Tensor& exponential_(double lambd = 1) const;
  /// Values whose logarithm is normally distributed. Errors as of normal_().
  const Tensor& log_normal_(double mean = 1, double std = 2) const;
  /// Values of a Cauchy distribution. Errors as of uniform_(), and ValueError unless sigma > 0.
  const Tensor& cauchy_(double median = 0, double sigma = 1) const;
  /// The number of trials until the first success, each of probability p. Errors as of uniform_(),
  /// and ValueError unless 0 < p < 1.
  const Tensor& geometric_(double p) const;
  /// Integers in [low, high). ValueError unless low < high, and the dtype holds them.
  const Tensor& random_(std::int64_t low, std::int64_t high) const;

  // ---- ops/aliases.h
  const Tensor& absolute_() const;
  const Tensor& negative_() const;
  const Tensor& arccos_() const;
  const Tensor& arcsin_() const;
  const Tensor& arctan_() const;
  const Tensor& arccosh_() const;
  const Tensor& arcsinh_() const;
  const Tensor& arctanh_() const;
  const Tensor& fix_() const;
  const Tensor& subtract_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& subtract_(Scalar other) const;
  const Tensor& multiply_(const Tensor& other) const;
  const Tensor& multiply_(Scalar other) const;
  const Tensor& divide_(const Tensor& other) const;
  const Tensor& divide_(Scalar other) const;
  const Tensor& true_divide_(const Tensor& other) const;
  const Tensor& true_divide_(Scalar other) const;
  const Tensor& clip_(std::optional<Scalar> min, std::optional<Scalar> max = {}) const;

  // ---- ops/special.h
  const Tensor& erfinv_() const;
  const Tensor& lgamma_() const;
  const Tensor& digamma_() const;
  const Tensor& polygamma_(std::int64_t n) const;
  const Tensor& mvlgamma_(std::int64_t p) const;

  // ---- ops/compare.h, ops/blend.h, ops/reduce.h
  const Tensor& eq_(const Tensor& other) const;
  const Tensor& eq_(Scalar other) const;
  const Tensor& ne_(const Tensor& other) const;
  const Tensor& ne_(Scalar other) const;
  const Tensor& lt_(const Tensor& other) const;
  const Tensor& lt_(Scalar other) const;
  const Tensor& le_(const Tensor& other) const;
  const Tensor& le_(Scalar other) const;
  const Tensor& gt_(const Tensor& other) const;
  const Tensor& gt_(Scalar other) const;
  const Tensor& ge_(const Tensor& other) const;
  const Tensor& ge_(Scalar other) const;
  const Tensor& logical_and_(const Tensor& other) const;
  const Tensor& logical_or_(const Tensor& other) const;
  const Tensor& logical_xor_(const Tensor& other) const;
  const Tensor& logical_not_() const;
  const Tensor& bitwise_and_(const Tensor& other) const;
  const Tensor& bitwise_and_(Scalar other) const;
  const Tensor& bitwise_or_(const Tensor& other) const;
  const Tensor& bitwise_or_(Scalar other) const;
  const Tensor& bitwise_xor_(const Tensor& other) const;
  const Tensor& bitwise_xor_(Scalar other) const;
  const Tensor& bitwise_not_() const;
  const Tensor& bitwise_left_shift_(const Tensor& other) const;
  const Tensor& bitwise_left_shift_(Scalar other) const;
  const Tensor& bitwise_right_shift_(const Tensor& other) const;
  const Tensor& bitwise_right_shift_(Scalar other) const;
  const Tensor& atan2_(const Tensor& other) const;
  const Tensor& hypot_(const Tensor& other) const;
  const Tensor& heaviside_(const Tensor& values) const;
  const Tensor& copysign_(const Tensor& other) const;
  const Tensor& copysign_(Scalar other) const;
  const Tensor& xlogy_(const Tensor& other) const;
  const Tensor& xlogy_(Scalar other) const;
  const Tensor& renorm_(double p, int dim, double maxnorm) const;

  // ---- ops/matmul.h, ops/products.h
  const Tensor& addmm_(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1) const;
  const Tensor& addmv_(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1) const;
  const Tensor& addr_(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1) const;
  const Tensor& baddbmm_(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1) const;
  const Tensor& addbmm_(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1) const;

  // ---- ops/views.h: the tensor itself gets the shape of the view; memory and values stay.
  /// This tensor with a further dimension of size 1; see Tensor::unsqueeze(). It and the methods
  /// below change the sizes and strides of the tensor itself, which all its handles see, and not
  /// those of its views. The change is recorded on the tape: AutogradError for a leaf that requires
  /// a gradient, outside of no_grad.
  ///
  ///   Tensor image = to_tensor(pixels);  // [3, H, W]
  ///   image.unsqueeze_(0);               // [1, 3, H, W]
  const Tensor& unsqueeze_(int dim) const;
  /// This tensor without dimensions of size 1; see Tensor::squeeze().
  const Tensor& squeeze_() const;
  const Tensor& squeeze_(int dim) const;
  const Tensor& squeeze_(const Dims& dims) const;
  /// This tensor with two dimensions swapped; see Tensor::transpose().
  const Tensor& transpose_(int dim0, int dim1) const;
  /// This tensor with its two dimensions swapped; see Tensor::t().
  const Tensor& t_() const;
  /// transpose_().
  const Tensor& swapaxes_(int dim0, int dim1) const;
  /// transpose_().
  const Tensor& swapdims_(int dim0, int dim1) const;

 private:
  friend class TensorMethods;
  InPlaceMethods() = default;  // of Tensor alone
  const Tensor& self() const;
};

}  // namespace ferrite
