// Every public op, with inputs that suit it and what tests need to know of it. Tests iterate over
// these rows and have no lists of ops of their own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/reduce.h"

namespace ferrite::test {

/// What an input holds.
enum class Fill : std::uint8_t {
  real,      ///< numbers of either sign, differentiable
  positive,  ///< numbers above 0, differentiable
  constant,  ///< as positive, and never differentiated
  index,     ///< int64 in [0, limit)
  mask       ///< bool
};

struct Arg {
  Shape shape;
  Fill fill = Fill::real;
  std::int64_t limit = 0;
  bool optional = false;    ///< may be undefined
  bool any_device = false;  ///< may be elsewhere than the others
  bool wide = false;        ///< float32 beside 16-bit numbers
  bool fixed = false;       ///< keeps its shape where Op::shapes lets others have another
};

/// The dtypes that an op's numbers, all of the same, may have; wide: float32 and float64;
/// no_half: all but 16-bit floats; pixels: floating or uint8.
enum class Takes : std::uint8_t { any, numeric, products, floating, wide, no_half, pixels };

bool takes(Takes what, DType dtype);

/// The shapes that an op takes: one for all inputs that are not `fixed`.
enum class Shapes : std::uint8_t {
  own,   ///< only those of its row
  any,   ///< every shape
  rows,  ///< every shape whose last dimension, along which it works, has three elements or more
};

struct Call {
  const std::vector<Tensor>& in;
  Device device;
  int dim;  ///< Op::dim
  const Tensor& operator[](std::size_t i) const { return in[i]; }
};

struct Op {
  std::string name;  ///< and the tag of its errors
  Takes takes;
  std::vector<Arg> args;
  std::function<std::vector<Tensor>(const Call&)> function;
  Shapes shapes = Shapes::own;
  /// Of an op along a dimension, which may be any dimension of its first input.
  std::optional<int> dim = {};
  bool adds_dim = false;  ///< whether `dim` is one of the result, which has one more
  /// Shapes of `args` whose sums a CUDA kernel cuts into many blocks.
  std::vector<Shape> large = {};
  /// What a region of autocast makes of its inputs (docs/mixed_precision.md); unset: it is made of
  /// ops that have policies.
  std::optional<CastPolicy> autocast = CastPolicy::unchanged;
  /// Waits for values, or moves them to another device or from one: cannot be part of a graph.
  bool on_host = false;
  bool random = false;  ///< its results are random
  /// The size of terms that cancel in gradients, whose rounding remains; see compare().
  double terms = 0;

  std::vector<Tensor> call(const std::vector<Tensor>& in, const Device& device = {}) const {
    return function({in, device, dim.value_or(0)});
  }
};

// What sets a row apart, said where it is added: in_float32(add("exp", ...)).

inline Op& in_lower_precision(Op& op) {
  op.autocast = CastPolicy::lower_precision;
  return op;
}
inline Op& in_float32(Op& op) {
  op.autocast = CastPolicy::float32;
  return op;
}
inline Op& promoted(Op& op) {
  op.autocast = CastPolicy::promote;
  return op;
}
/// Made of ops that have policies.
inline Op& composed(Op& op) {
  op.autocast.reset();
  return op;
}
inline Op& random_results(Op& op) {
  op.random = true;
  return op;
}

/// Ops whose name ends in _ change their first input, and return it.
inline bool changes_input(const Op& op) { return op.name.back() == '_'; }

/// Numbers of `dtype` (indices and masks keep theirs), the same on every device.
Tensor make_input(const Arg& arg, DType dtype, const Device& device, int seed = 0);
std::vector<Tensor> make_inputs(const Op& op, DType dtype, const Device& device, int seed = 0);

/// What an op returns, as a list.
inline std::vector<Tensor> as_list(Tensor t) { return {std::move(t)}; }
inline std::vector<Tensor> as_list(std::vector<Tensor> list) { return list; }
inline std::vector<Tensor> as_list(const ValuesIndices& r) { return {r.values, r.indices}; }
inline std::vector<Tensor> as_list(std::pair<Tensor, Tensor> r) { return {r.first, r.second}; }
template <class... Tensors>
std::vector<Tensor> as_list(const std::tuple<Tensors...>& r) {
  return std::apply([](const auto&... t) { return std::vector<Tensor>{t...}; }, r);
}

/// Adds rows that have something in common. A row's function takes the Call, or its first input,
/// alone or with its dimension, or its first two inputs.
struct Adder {
  std::vector<Op>& table;
  Takes takes = Takes::any;
  std::vector<Arg> args = {};
  Shapes shapes = Shapes::own;
  std::optional<int> dim = {};

  template <class F>
  Op& operator()(const char* name, Takes takes, std::vector<Arg> args, F f) const {
    const auto function = [f](const Call& c) {
      if constexpr (std::is_invocable_v<F, const Call&>)
        return as_list(f(c));
      else if constexpr (std::is_invocable_v<F, const Tensor&>)
        return as_list(f(c[0]));
      else if constexpr (std::is_invocable_v<F, const Tensor&, const Tensor&>)
        return as_list(f(c[0], c[1]));
      else
        return as_list(f(c[0], c.dim));
    };
    table.push_back({name, takes, std::move(args), function, shapes, dim});
    return table.back();
  }
  template <class F>
  Op& operator()(const char* name, Takes takes, F f) const {
    return (*this)(name, takes, args, f);
  }
  template <class F>
  Op& operator()(const char* name, std::vector<Arg> args, F f) const {
    return (*this)(name, takes, std::move(args), f);
  }
  template <class F>
  Op& operator()(const char* name, F f) const {
    return (*this)(name, takes, args, f);
  }
};

void add_elementwise_ops(std::vector<Op>& table);
void add_shape_ops(std::vector<Op>& table);
void add_reductions(std::vector<Op>& table);
void add_index_ops(std::vector<Op>& table);
void add_nn_ops(std::vector<Op>& table);
void add_functions(std::vector<Op>& table);
void add_linalg(std::vector<Op>& table);
void add_layer_ops(std::vector<Op>& table);
void add_methods(std::vector<Op>& table);
void add_options(std::vector<Op>& table);
void add_complex_ops(std::vector<Op>& table);

const std::vector<Op>& op_table();

}  // namespace ferrite::test
