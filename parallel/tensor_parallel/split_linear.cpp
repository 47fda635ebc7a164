#include "ferrite/parallel/tensor_parallel/split_linear.h"

#include <fmt/ranges.h>

#include <memory>

#include "ferrite/nn/repr.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/parallel/tensor_parallel/groups.h"
#include "ferrite/parallel/tensor_parallel/regions.h"

namespace ferrite::parallel {

LinearPart::LinearPart(const Tensor& w, const Tensor& b) : weight(w), bias(b) {
  register_parameter("weight", weight);
  register_parameter("bias", bias);
}

Tensor LinearPart::forward(const Tensor& input) { return linear(input, weight, bias); }

std::string LinearPart::extra_repr() const {
  return fmt::format("in_features={}, out_features={}, bias={}, device={}", weight.size(1),
                     weight.size(0), nn::repr(bias.defined()), weight.device());
}

std::optional<std::int64_t> LinearPart::multiply_adds(std::span<const Tensor>,
                                                      std::span<const Tensor> outputs) const {
  return outputs[0].numel() * weight.size(1);
}

SplitLinear::SplitLinear(std::int64_t in_features, std::int64_t out_features,
                         const std::vector<Device>& devices, int dim,
                         const SplitLinearOptions& options)
    : in_features_(in_features), out_features_(out_features), dim_(dim) {
  const char* const op = dim == 0 ? "ColumnSplitLinear" : "RowSplitLinear";
  FERRITE_CHECK(!devices.empty(), ValueError, op, "expected one device or more");
  const std::int64_t features = dim == 0 ? out_features : in_features;
  FERRITE_CHECK(static_cast<std::int64_t>(devices.size()) <= features, ValueError, op,
                "{} {} features are too few for {} devices", features,
                dim == 0 ? "output" : "input", devices.size());
  const tensor_parallel::DrawnLinear whole = tensor_parallel::draw_linear(
      in_features, out_features, options.bias, options.generator, nullptr);
  const std::vector<std::int64_t> sizes = split_sizes(features, devices.size());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < devices.size(); begin += sizes[i++]) {
    const auto put = [&](const Tensor& t) {
      return t.narrow(dim, begin, sizes[i]).clone(kContiguous).to(devices[i]);
    };
    register_module(std::to_string(i),
                    std::make_unique<LinearPart>(
                        put(whole.weight), dim == 0 && options.bias ? put(whole.bias) : Tensor()));
  }
  if (dim != 0 && options.bias) bias_ = whole.bias.to(devices[0]);
  if (dim != 0) register_parameter("bias", bias_);
}

LinearPart& SplitLinear::part(std::size_t device) const {
  const std::vector<nn::Module*> parts = children();
  FERRITE_CHECK(device < parts.size(), IndexError, "part", "{} has {} parts, asked for number {}",
                name(), parts.size(), device);
  return static_cast<LinearPart&>(*parts[device]);
}

std::vector<Device> SplitLinear::devices() const {
  std::vector<Device> devices;
  for (const nn::Module* const part : children())
    devices.push_back(static_cast<const LinearPart*>(part)->weight.device());
  return devices;
}

std::string SplitLinear::extra_repr() const {
  return fmt::format("in_features={}, out_features={}, devices=[{}]", in_features_, out_features_,
                     fmt::join(devices(), ", "));
}

std::vector<SplitTensor> SplitLinear::split_tensors() const {
  std::vector<SplitTensor> split;
  std::int64_t begin = 0;
  const std::vector<nn::Module*> parts = children();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& part = static_cast<const LinearPart&>(*parts[i]);
    const std::string prefix = std::to_string(i) + ".";
    split.push_back({.name = prefix + "weight",
                     .whole = "weight",
                     .dim = dim_,
                     .begin = begin,
                     .shape = {out_features_, in_features_}});
    if (part.bias.defined())
      split.push_back({.name = prefix + "bias",
                       .whole = "bias",
                       .dim = 0,
                       .begin = begin,
                       .shape = {out_features_}});
    begin += part.weight.size(dim_);
  }
  return split;
}

std::vector<Tensor> SplitLinear::products(std::span<const Tensor> inputs) const {
  const std::vector<nn::Module*> parts = children();
  FERRITE_CHECK(inputs.size() == parts.size(), ValueError, name().c_str(),
                "expected an input for each of {} parts, got {}", parts.size(), inputs.size());
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < parts.size(); ++i)
    outputs.push_back(static_cast<LinearPart&>(*parts[i])(inputs[i]));
  return outputs;
}

ColumnSplitLinear::ColumnSplitLinear(std::int64_t in_features, std::int64_t out_features,
                                     const std::vector<Device>& devices,
                                     const SplitLinearOptions& options)
    : Cloneable(in_features, out_features, devices, 0, options) {}

Tensor ColumnSplitLinear::forward(const Tensor& input) {
  const std::vector<Tensor> parts = forward_parts(input);
  return gather_from_devices(parts, parts[0].device());
}

std::vector<Tensor> ColumnSplitLinear::forward_parts(const Tensor& input) {
  return products(copy_to_devices(input, devices()));
}

std::vector<Tensor> ColumnSplitLinear::forward_parts(std::span<const Tensor> copies) {
  return products(copies);
}

RowSplitLinear::RowSplitLinear(std::int64_t in_features, std::int64_t out_features,
                               const std::vector<Device>& devices,
                               const SplitLinearOptions& options)
    : Cloneable(in_features, out_features, devices, 1, options) {}

Tensor RowSplitLinear::forward(const Tensor& input) {
  const std::vector<Device> where = devices();
  FERRITE_CHECK(input.defined() && input.dim() > 0 && input.size(-1) == in_features_, ShapeError,
                "RowSplitLinear", "expected [..., {}], got {}", in_features_, input.describe());
  return forward(scatter_to_devices(input, where));
}

Tensor RowSplitLinear::forward(std::span<const Tensor> parts) {
  const std::vector<Tensor> summands = products(parts);
  const Tensor sum = reduce_from_devices(summands, summands[0].device());
  return bias_.defined() ? sum + bias_.to(sum.dtype()) : sum;
}

SplitMLP::SplitMLP(std::int64_t hidden, std::int64_t ffn_hidden, const std::vector<Device>& devices,
                   const SplitLinearOptions& options)
    : fc1(hidden, ffn_hidden, devices, options), fc2(ffn_hidden, hidden, devices, options) {
  register_module("fc1", fc1);
  register_module("fc2", fc2);
}

Tensor SplitMLP::forward(const Tensor& input) {
  std::vector<Tensor> parts = fc1.forward_parts(input);
  for (Tensor& part : parts) part = gelu(part);
  return fc2(parts);
}

}  // namespace ferrite::parallel
