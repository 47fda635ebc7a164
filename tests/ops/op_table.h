// Every public op with inputs that suit it, for tests that run them all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ferrite/core/tensor.h"

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
};

/// The dtypes that an op's numbers, all of the same, may have.
enum class Takes : std::uint8_t { any, numeric, products, floating };

bool takes(Takes what, DType dtype);

struct Call {
  const std::vector<Tensor>& in;
  Device device;
  const Tensor& operator[](std::size_t i) const { return in[i]; }
};

struct Op {
  std::string name;  ///< and the tag of its errors
  Takes takes;
  std::vector<Arg> args;
  std::function<std::vector<Tensor>(const Call&)> call;
  /// Waits for values, or moves them to another device or from one: cannot be part of a graph.
  bool on_host = false;
};

/// Ops whose name ends in _ change their first input, and return it.
inline bool changes_input(const Op& op) { return op.name.back() == '_'; }

/// Numbers of `dtype` (indices and masks keep theirs), the same on every device.
Tensor make_input(const Arg& arg, DType dtype, const Device& device, int seed = 0);
std::vector<Tensor> make_inputs(const Op& op, DType dtype, const Device& device, int seed = 0);

void add_elementwise_ops(std::vector<Op>& table);
void add_shape_ops(std::vector<Op>& table);
void add_reductions(std::vector<Op>& table);
void add_index_ops(std::vector<Op>& table);
void add_nn_ops(std::vector<Op>& table);
void add_methods(std::vector<Op>& table);
void add_options(std::vector<Op>& table);

const std::vector<Op>& op_table();

}  // namespace ferrite::test
