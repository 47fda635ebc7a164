// Creating tensors: constants, sequences, values from C++, random numbers.
//
// Options default to get_default_dtype() (float32) on get_default_device() (the host); use for
// example {.dtype = kInt64, .device = "cpu:0"}, or a single one, kInt64 or "cpu:0".
// Random functions draw from `generator`, or from the default generator of the device; the same
// seed gives the same numbers on every device, with any number of threads.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// Zeros, of this shape; float32 on the default device unless the options say otherwise. ShapeError
/// for negative sizes.
///
///   Tensor a = zeros({2, 3});
///   Tensor b = zeros({2, 3}, {.dtype = kInt64, .device = "cuda"});
Tensor zeros(const Shape& shape, const TensorOptions& options = {});
/// Ones, of this shape; otherwise as zeros().
Tensor ones(const Shape& shape, const TensorOptions& options = {});
/// Elements of one value, of this shape: `full({2, 3}, 0.5)`. As zeros(), it has the default dtype
/// unless an option names another, also for a whole number or a bool, of which torch.full makes
/// int64 or bool: `full({2, 3}, 7, kLong)`.
Tensor full(const Shape& shape, Scalar value, const TensorOptions& options = {});
/// Zeros, with the shape, dtype, device and memory format of another tensor.
Tensor zeros_like(const Tensor& like);
/// Ones, with the shape, dtype, device and memory format of another tensor.
Tensor ones_like(const Tensor& like);
/// Elements of one value, with the shape, dtype, device and memory format of another tensor.
Tensor full_like(const Tensor& like, Scalar value);
/// With the shape of `like`, and its dtype, device and memory format where the option gives no
/// other.
template <Option T>
Tensor zeros_like(const Tensor& like, const T& option) {
  return zeros(like.shape(), options_of(option, detail::options_like(like)));
}
template <Option T>
Tensor ones_like(const Tensor& like, const T& option) {
  return ones(like.shape(), options_of(option, detail::options_like(like)));
}
template <Option T>
Tensor full_like(const Tensor& like, Scalar value, const T& option) {
  return full(like.shape(), value, options_of(option, detail::options_like(like)));
}

/// start, start + step, ... below `end` (above it for a negative step): ceil((end - start) / step)
/// elements. int64 if all three are integers, else float32, unless specified in the options.
/// ValueError if `step` is 0 or leads away from `end`, or a bound is not finite.
///
///   Tensor a = arange(5);           // 0, 1, 2, 3, 4: int64
///   Tensor b = arange(0, 1, 0.25);  // 0, 0.25, 0.5, 0.75: float32
Tensor arange(Scalar end);
Tensor arange(Scalar end, const TensorOptions& options);
Tensor arange(Scalar start, Scalar end, Scalar step = 1);
Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions& options);
Tensor arange(Scalar start, Scalar end, const TensorOptions& options);
/// `steps` numbers from `start` to `end`, both included, at equal distances. ValueError for
/// negative steps.
///
///   linspace(0, 1, 5);  // 0, 0.25, 0.5, 0.75, 1
Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options = {});
/// `base` to the power of each number of linspace(start, end, steps), computed in float64 and
/// rounded once. ValueError for negative steps.
///
///   logspace(0, 2, 3);  // 1, 10, 100
Tensor logspace(double start, double end, std::int64_t steps, double base = 10,
                const TensorOptions& options = {});
/// [n, m], by default [n, n], with ones on the diagonal and 0 elsewhere. ValueError for negative
/// sizes.
Tensor eye(std::int64_t n, const TensorOptions& options = {});
Tensor eye(std::int64_t n, std::int64_t m, const TensorOptions& options = {});

/// Random values, uniform in [0, 1): `rand({2, 3})`. DTypeError unless the dtype is floating or
/// complex, whose two parts are drawn.
Tensor rand(const Shape& shape, const TensorOptions& options = {}, Generator* generator = nullptr);
/// Random values from the normal distribution with mean 0 and standard deviation 1. Without a
/// `generator` they are from the device's, which manual_seed() seeds. DTypeError unless the dtype
/// is floating or complex, whose parts have a variance of 1/2 each.
///
///   manual_seed(0);
///   Tensor x = randn({64, 3, 32, 32}, {.device = "cuda"});
Tensor randn(const Shape& shape, const TensorOptions& options = {}, Generator* generator = nullptr);
/// Random values, uniform in [0, 1), with the shape, dtype and device of another tensor; otherwise
/// as rand().
Tensor rand_like(const Tensor& like, Generator* generator = nullptr);
/// Normal random values with the shape, dtype and device of another tensor; otherwise as randn().
Tensor randn_like(const Tensor& like, Generator* generator = nullptr);
/// Uniform integers in [low, high), int64 by default; ValueError if the range is empty or its
/// numbers do not fit the dtype.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
               const TensorOptions& options = {}, Generator* generator = nullptr);
Tensor randint(std::int64_t high, const Shape& shape, const TensorOptions& options = {},
               Generator* generator = nullptr);
/// With the shape, dtype and device of another tensor.
Tensor randint_like(const Tensor& like, std::int64_t low, std::int64_t high,
                    Generator* generator = nullptr);
Tensor randint_like(const Tensor& like, std::int64_t high, Generator* generator = nullptr);
/// The numbers 0 to n - 1 in random order, [n], int64 by default. ValueError for a negative n, or
/// if the dtype does not hold them.
Tensor randperm(std::int64_t n, const TensorOptions& options = {}, Generator* generator = nullptr);
/// Normal random values with this mean and standard deviation. DTypeError unless the dtype is
/// floating, ValueError for an std below 0.
Tensor normal(double mean, double std, const Shape& shape, const TensorOptions& options = {},
              Generator* generator = nullptr);
/// The same with a mean or a standard deviation for each element; shapes broadcast and dtypes are
/// promoted. Off the tape. DTypeError and ValueError as above; that no std is below 0 is not
/// checked for tensors on devices.
Tensor normal(const Tensor& mean, const Tensor& std, Generator* generator = nullptr);
Tensor normal(const Tensor& mean, double std = 1, Generator* generator = nullptr);
Tensor normal(double mean, const Tensor& std, Generator* generator = nullptr);
/// 1 with probability p[i], else 0, with the shape and dtype of `p`, floating (DTypeError), whose
/// values are in [0, 1]: ValueError on the host; on other devices they are not looked at, which
/// would wait. Off the tape.
Tensor bernoulli(const Tensor& p, Generator* generator = nullptr);

// In place, any strides; the members of Tensor draw from the default generator.
/// Draws every element in place, uniform in [low, high). DTypeError unless floating, ValueError
/// unless low <= high; AutogradError as of all functions in place (core/in_place_methods.h).
const Tensor& uniform_(const Tensor& self, double low, double high, Generator* generator = nullptr);
/// Draws every element in place, normal with this mean and standard deviation. DTypeError unless
/// floating, ValueError for an std below 0.
const Tensor& normal_(const Tensor& self, double mean, double std, Generator* generator = nullptr);
/// Makes every element 1 with probability p, else 0, in place. ValueError unless p is in [0, 1].
const Tensor& bernoulli_(const Tensor& self, double p, Generator* generator = nullptr);

// ---- tensor(...): a tensor of the given values.

namespace detail {

/// Any number, where a list has several types of them. A class, so that {{1.0}, {2.0}} is a list of
/// rows rather than one of numbers in braces.
struct Number {
  template <class T>
  requires std::is_arithmetic_v<T> Number(T value) : value(static_cast<double>(value)) {}
  operator double() const { return value; }
  double value;
};

/// The C++ type in which values are stored temporarily: bool, int64, float, double or complex.
template <class T>
using Literal =
    std::conditional_t<std::is_same_v<T, bool> || std::is_floating_point_v<T> || is_complex_type<T>,
                       T, std::conditional_t<is_half_type<T>, float, std::int64_t>>;
/// The default dtype of values.
template <class T>
DType literal_dtype() {
  if constexpr (std::is_same_v<T, bool>) return kBool;
  if constexpr (is_complex_type<T>) return complex_type(get_default_dtype());
  return std::is_floating_point_v<T> || is_half_type<T> ? get_default_dtype() : kInt64;
}

/// empty(), whatever options.requires_grad is.
Tensor blank(const Shape& shape, TensorOptions options);
/// `options`, with this dtype unless they give one.
inline TensorOptions or_dtype(TensorOptions options, DType dtype) {
  options.dtype = options.dtype.value_or(dtype);
  return options;
}
/// `made`, in pinned memory and requiring a gradient if the options want it.
inline Tensor with_grad(Tensor made, const TensorOptions& options) {
  if (options.pinned) made = made.pin_memory();
  if (options.requires_grad) made.set_requires_grad();
  return made;
}
DType literal_dtype(Scalar value);
/// int64 if all three are integers.
DType arange_dtype(Scalar start, Scalar end, Scalar step);
Tensor place(const Tensor& host, const TensorOptions& options);
std::int64_t common_length(std::int64_t first, std::int64_t other);

template <class T, class Row>
void copy_row(const Row& row, Literal<T>*& to) {
  for (const auto& v : row) *to++ = static_cast<Literal<T>>(static_cast<T>(v));
}
template <class T, class Values>
Tensor from_values(const Values& values, const TensorOptions& options) {
  Tensor host = empty({static_cast<std::int64_t>(values.size())},
                      {.dtype = dtype_of<Literal<T>>, .device = kCPU});
  auto* to = host.template data<Literal<T>>();
  copy_row<T>(values, to);
  return place(host, options);
}
template <class T, class Rows>
Tensor from_rows(const Rows& rows, const TensorOptions& options) {
  std::int64_t columns = rows.size() == 0 ? 0 : static_cast<std::int64_t>(rows.begin()->size());
  for (const auto& row : rows)
    columns = common_length(columns, static_cast<std::int64_t>(row.size()));
  Tensor host = empty({static_cast<std::int64_t>(rows.size()), columns},
                      {.dtype = dtype_of<Literal<T>>, .device = kCPU});
  auto* to = host.template data<Literal<T>>();
  for (const auto& row : rows) copy_row<T>(row, to);
  return place(host, options);
}
template <class T, class Blocks>
Tensor from_blocks(const Blocks& blocks, const TensorOptions& options) {
  std::vector<std::initializer_list<T>> rows;
  std::int64_t count = blocks.size() == 0 ? 0 : static_cast<std::int64_t>(blocks.begin()->size());
  for (const auto& block : blocks) {
    count = common_length(count, static_cast<std::int64_t>(block.size()));
    rows.insert(rows.end(), block.begin(), block.end());
  }
  const Tensor flat = from_rows<T>(rows, {.dtype = dtype_of<Literal<T>>, .device = kCPU});
  return place(flat.view({static_cast<std::int64_t>(blocks.size()), count, flat.shape().back()}),
               options);
}

}  // namespace detail

/// A 0-dimensional tensor of one value: `tensor(1.5)`.
Tensor tensor(Scalar value);
Tensor tensor(Scalar value, const TensorOptions& options);
/// tensor({1, 2, 3}) is int64, tensor({1.5, 2}) float32, tensor({true}) bool, tensor({1.0 + 2.0i})
/// complex64, unless specified in the options. ValueError if an integer type that is specified does
/// not hold a value.
///
///   Tensor v = tensor({1.5, 2.0, 3.0});
///   Tensor m = tensor({{1, 2}, {3, 4}}, {.dtype = kFloat32});
template <class T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {}) {
  return detail::from_values<T>(values, detail::or_dtype(options, detail::literal_dtype<T>()));
}
template <class T>
Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}) {
  return detail::from_values<T>(values, detail::or_dtype(options, detail::literal_dtype<T>()));
}
/// Rows of a matrix; ShapeError if their lengths differ.
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows,
              const TensorOptions& options = {}) {
  return detail::from_rows<T>(rows, detail::or_dtype(options, detail::literal_dtype<T>()));
}
template <class T>
Tensor tensor(const std::vector<std::vector<T>>& rows, const TensorOptions& options = {}) {
  return detail::from_rows<T>(rows, detail::or_dtype(options, detail::literal_dtype<T>()));
}

// Numbers of several types.
inline Tensor tensor(std::initializer_list<detail::Number> values,
                     const TensorOptions& options = {}) {
  return detail::from_values<double>(values, options);
}
inline Tensor tensor(std::initializer_list<std::initializer_list<detail::Number>> rows,
                     const TensorOptions& options = {}) {
  return detail::from_rows<double>(rows, options);
}
/// Blocks of rows.
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> blocks,
              const TensorOptions& options = {}) {
  return detail::from_blocks<T>(blocks, detail::or_dtype(options, detail::literal_dtype<T>()));
}

// ---- One option in place of TensorOptions: zeros({2}, kInt64), rand({2}, "cpu:0"),
// tensor({1, 2}, device("cpu:0")). What it does not give is as without options.
template <Option O>
Tensor zeros(const Shape& shape, const O& option) {
  return zeros(shape, options_of(option));
}
template <Option O>
Tensor ones(const Shape& shape, const O& option) {
  return ones(shape, options_of(option));
}
template <Option O>
Tensor full(const Shape& shape, Scalar value, const O& option) {
  return full(shape, value, options_of(option));
}
template <Option O>
Tensor arange(Scalar end, const O& option) {
  return arange(0, end, 1, option);
}
template <Option O>
Tensor arange(Scalar start, Scalar end, const O& option) {
  return arange(start, end, 1, option);
}
template <Option O>
Tensor arange(Scalar start, Scalar end, Scalar step, const O& option) {
  return arange(start, end, step,
                options_of(option, {.dtype = detail::arange_dtype(start, end, step)}));
}
template <Option O>
Tensor linspace(double start, double end, std::int64_t steps, const O& option) {
  return linspace(start, end, steps, options_of(option));
}
template <Option O>
Tensor logspace(double start, double end, std::int64_t steps, double base, const O& option) {
  return logspace(start, end, steps, base, options_of(option));
}
template <Option O>
Tensor eye(std::int64_t n, const O& option) {
  return eye(n, options_of(option));
}
template <Option O>
Tensor eye(std::int64_t n, std::int64_t m, const O& option) {
  return eye(n, m, options_of(option));
}
template <Option O>
Tensor rand(const Shape& shape, const O& option) {
  return rand(shape, options_of(option));
}
template <Option O>
Tensor randn(const Shape& shape, const O& option) {
  return randn(shape, options_of(option));
}
template <Option O>
Tensor rand_like(const Tensor& like, const O& option) {
  return rand(like.shape(), options_of(option, detail::options_like(like)));
}
template <Option O>
Tensor randn_like(const Tensor& like, const O& option) {
  return randn(like.shape(), options_of(option, detail::options_like(like)));
}
template <Option O>
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, const O& option) {
  return randint(low, high, shape, options_of(option, {.dtype = kInt64}));
}
template <Option O>
Tensor randint(std::int64_t high, const Shape& shape, const O& option) {
  return randint(0, high, shape, option);
}
template <Option O>
Tensor randperm(std::int64_t n, const O& option) {
  return randperm(n, options_of(option, {.dtype = kInt64}));
}
template <Option O>
Tensor tensor(Scalar value, const O& option) {
  return tensor(value, options_of(option, {.dtype = detail::literal_dtype(value)}));
}
template <class T, Option O>
Tensor tensor(std::initializer_list<T> values, const O& option) {
  return tensor(values, options_of(option, {.dtype = detail::literal_dtype<T>()}));
}
template <class T, Option O>
Tensor tensor(const std::vector<T>& values, const O& option) {
  return tensor(values, options_of(option, {.dtype = detail::literal_dtype<T>()}));
}
template <class T, Option O>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, const O& option) {
  return tensor(rows, options_of(option, {.dtype = detail::literal_dtype<T>()}));
}

template <Option O>
Tensor tensor(std::initializer_list<detail::Number> values, const O& option) {
  return tensor(values, options_of(option));
}

// ---- Sizes without braces: zeros(2, 3).
template <Size... Sizes>
Tensor zeros(Sizes... sizes) {
  return zeros(shape_of(sizes...));
}
template <Size... Sizes>
Tensor ones(Sizes... sizes) {
  return ones(shape_of(sizes...));
}
template <Size... Sizes>
Tensor rand(Sizes... sizes) {
  return rand(shape_of(sizes...));
}
template <Size... Sizes>
Tensor randn(Sizes... sizes) {
  return randn(shape_of(sizes...));
}

// ---- One size and an option: zeros(3, kLong).
template <Size N, Option O>
Tensor zeros(N size, const O& option) {
  return zeros(shape_of(size), options_of(option));
}
template <Size N, Option O>
Tensor ones(N size, const O& option) {
  return ones(shape_of(size), options_of(option));
}
template <Size N, Option O>
Tensor rand(N size, const O& option) {
  return rand(shape_of(size), options_of(option));
}
template <Size N, Option O>
Tensor randn(N size, const O& option) {
  return randn(shape_of(size), options_of(option));
}

}  // namespace ferrite
