// Ops by name, for the program that runs the cases of compare.py.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite::differential {

using Json = nlohmann::json;
using Tensors = std::vector<Tensor>;

/// Outputs from inputs and named arguments.
using Op = std::function<Tensors(const Tensors& in, const Json& args)>;
using Table = std::map<std::string, Op>;

void add_elementwise(Table& table);
void add_reductions(Table& table);
void add_indexing(Table& table);
void add_layers(Table& table);

/// Unset if null or missing.
template <class T>
std::optional<T> maybe(const Json& args, const char* name) {
  const auto it = args.find(name);
  return it == args.end() || it->is_null() ? std::optional<T>() : std::optional<T>(it->get<T>());
}

inline Scalar to_scalar(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_string()) return std::stod(value.get<std::string>());  // "nan", "-inf"
  return value.get<double>();
}
inline std::optional<Scalar> maybe_scalar(const Json& args, const char* name) {
  const auto it = args.find(name);
  return it == args.end() || it->is_null() ? std::optional<Scalar>() : to_scalar(*it);
}

inline Shape to_shape(const Json& sizes) {
  Shape shape;
  for (const Json& size : sizes) shape.push_back(size.get<std::int64_t>());
  return shape;
}
inline Dims to_dims(const Json& args, const char* name = "dims") {
  return args.contains(name) && !args[name].is_null() ? Dims(to_shape(args[name])) : Dims();
}

}  // namespace ferrite::differential
