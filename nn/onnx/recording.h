// The graph of a network, from the ops that it reports while it runs (core/tracing.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/core/tracing.h"
#include "ferrite/nn/module.h"

namespace ferrite::onnx {

constexpr const char* kSaveOp = "onnx::save";  ///< the name in errors

/// A size: per_row * batch + fixed.
struct Size {
  std::int64_t per_row = 0, fixed = 0;
  bool is_fixed() const { return per_row == 0; }
  friend bool operator==(const Size&, const Size&) = default;
};
using Sizes = std::vector<Size>;

/// A tensor of the graph.
struct Variable {
  enum class Kind { input, parameter, constant, filled, result };
  Kind kind = Kind::result;
  std::string name;  ///< of inputs and parameters
  Sizes shape;
  Tensor tensor;  ///< its values with the example; of results too
  /// Whether the shape depends on values of the input, as that of nonzero(); `shape` is then that
  /// with the example.
  bool has_open_shape = false;
  int dim() const { return static_cast<int>(shape.size()); }
  DType dtype() const { return tensor.dtype(); }
  bool is_constant() const { return kind == Kind::constant || kind == Kind::parameter; }
};

constexpr int kNone = -1;  ///< an input that is undefined

/// An op of the graph. Inputs and outputs are numbers of variables.
class Operation {
 public:
  std::string op;    ///< without the _ of those in place
  std::string path;  ///< of its module; "" outside of any
  std::vector<int> inputs, outputs;

  bool has(const char* name) const { return values(name) != nullptr; }
  bool flag(const char* name) const { return get<bool>(name); }
  double number(const char* name) const { return get<double>(name); }
  const std::string& text(const char* name) const { return get<std::string>(name); }
  Scalar scalar(const char* name) const { return get<Scalar>(name); }
  std::int64_t integer(const char* name) const { return get<std::int64_t>(name); }
  const tracing::Sizes& integers(const char* name) const { return get<tracing::Sizes>(name); }
  /// Integers that may depend on the size of the batch.
  Sizes sizes(const char* name) const;
  /// Throws ValueError: this op, of its module, cannot be exported, because ...
  [[noreturn]] void refuse(const std::string& reason) const;

  std::vector<std::vector<tracing::Attribute>> attributes;  ///< of each run
  std::vector<std::int64_t> batches;                        ///< of each run

 private:
  const tracing::Value* values(const char* name, std::size_t run = 0) const;  ///< or null
  const tracing::Value& value(const char* name, std::size_t run = 0) const;
  template <class T>
  const T& get(const char* name) const;
};

struct Recording {
  std::vector<Variable> variables;
  std::vector<Operation> operations;
  std::vector<int> inputs, outputs;
  std::vector<std::int64_t> batches;
};

using Forward = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Runs `forward` on each of the variants of the inputs, which have the given batch sizes, the
/// first of them the example, and compares what was recorded.
Recording record(nn::Module& model, const Forward& forward,
                 const std::vector<std::vector<Tensor>>& variants,
                 const std::vector<std::int64_t>& batches);

}  // namespace ferrite::onnx
