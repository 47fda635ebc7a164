// Ops by name, for the program that runs the cases of compare.py.
#pragma once

#include <complex>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/pair.h"
#include "ferrite/ops/reduce.h"

namespace ferrite::differential {

using Json = nlohmann::json;
using Tensors = std::vector<Tensor>;

/// Outputs from inputs and named arguments.
using Op = std::function<Tensors(const Tensors& in, const Json& args)>;
using Table = std::map<std::string, Op>;

void add_elementwise(Table& table);
void add_reductions(Table& table);
void add_indexing(Table& table);
void add_statistics(Table& table);
void add_places(Table& table);
void add_arrangements(Table& table);
void add_layers(Table& table);
void add_spatial(Table& table);
void add_distances(Table& table);
void add_linalg(Table& table);
void add_margins(Table& table);
void add_sequences(Table& table);
void add_complex(Table& table);
void add_modules(Table& table);
void add_networks(Table& table);
void add_optimizers(Table& table);

/// Unset if null or missing.
template <class T>
std::optional<T> maybe(const Json& args, const char* name) {
  const auto it = args.find(name);
  return it == args.end() || it->is_null() ? std::optional<T>() : std::optional<T>(it->get<T>());
}

inline Scalar to_scalar(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_array()) return std::complex<double>(value[0].get<double>(), value[1].get<double>());
  if (value.is_string()) return std::stod(value.get<std::string>());  // "nan", "-inf"
  return value.get<double>();
}
inline std::optional<Scalar> maybe_scalar(const Json& args, const char* name) {
  const auto it = args.find(name);
  return it == args.end() || it->is_null() ? std::optional<Scalar>() : to_scalar(*it);
}

/// An input that may be left out.
inline Tensor optional_input(const Tensors& in, std::size_t i) {
  return i < in.size() ? in[i] : Tensor();
}

inline Shape to_shape(const Json& sizes) {
  Shape shape;
  for (const Json& size : sizes) shape.push_back(size.get<std::int64_t>());
  return shape;
}
inline Dims to_dims(const Json& args, const char* name = "dims") {
  return args.contains(name) && !args[name].is_null() ? Dims(to_shape(args[name])) : Dims();
}

inline std::vector<std::int64_t> to_list(const Json& sizes) {
  return sizes.get<std::vector<std::int64_t>>();
}

inline Pair to_pair(const Json& args, const char* name) { return {args[name][0], args[name][1]}; }

inline Reduction to_reduction(const Json& args) {
  const std::string text = args["reduction"];
  return text == "mean"        ? Reduction::mean
         : text == "sum"       ? Reduction::sum
         : text == "batchmean" ? Reduction::batchmean
                               : Reduction::none;
}

inline std::optional<DType> maybe_dtype(const Json& args) {
  const auto text = maybe<std::string>(args, "dtype");
  return text ? std::optional(parse_dtype(*text)) : std::nullopt;
}

/// Values and indices, or other results in twos.
inline Tensors pair(const ValuesIndices& v) { return {v.values, v.indices}; }
inline Tensors pair(const std::pair<Tensor, Tensor>& v) { return {v.first, v.second}; }
inline Tensors pair(const std::tuple<Tensor, Tensor>& v) {
  return {std::get<0>(v), std::get<1>(v)};
}

}  // namespace ferrite::differential
