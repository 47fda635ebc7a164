#include "ferrite/benchmarks/kernels/cases.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ferrite/core/generator.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/random.h"
#include "ferrite/ops/views.h"

namespace ferrite::bench {

std::string Spec::str() const {
  std::string text = fmt::format("{} {} {}", op, shape.str(), name(dtype));
  if (channels_last) text += " nhwc";
  if (outputs > 0) text += fmt::format(" to {}", outputs);
  if (kernel > 1) text += fmt::format(" by {}x{}", kernel, kernel);
  if (stride > 1) text += fmt::format(" step {}", stride);
  return text;
}

nlohmann::json to_json(const Spec& spec) {
  return {{"name", spec.str()},
          {"family", spec.family},
          {"op", spec.op},
          {"shape", std::vector<std::int64_t>(spec.shape.begin(), spec.shape.end())},
          {"dtype", name(spec.dtype)},
          {"channels_last", spec.channels_last},
          {"outputs", spec.outputs},
          {"kernel", spec.kernel},
          {"stride", spec.stride},
          {"padding", spec.padding}};
}

Spec spec_from(const nlohmann::json& json) {
  return {.family = json.at("family"),
          .op = json.at("op"),
          .shape = Shape(json.at("shape").get<std::vector<std::int64_t>>()),
          .dtype = parse_dtype(json.at("dtype").get<std::string>()),
          .channels_last = json.at("channels_last"),
          .outputs = json.at("outputs"),
          .kernel = json.at("kernel"),
          .stride = json.at("stride"),
          .padding = json.at("padding")};
}

Tensor random_values(const Shape& shape, DType dtype, const Device& device, MemoryFormat format) {
  const Tensor t = empty(shape, {.dtype = dtype, .device = device, .memory_format = format});
  static std::uint64_t seed = 0;
  kernels::uniform(current_stream(device), geometry::as_strided(t, {t.numel()}, {1}, 0),
                   PhiloxState{++seed, 0}, 0.05, 0.95);
  return t;
}

const std::vector<Op>& all_ops() {
  static const std::vector<Op> ops = [] {
    std::vector<Op> all;
    add_elementwise_ops(all);
    add_row_ops(all);
    add_optimizer_ops(all);
    add_network_ops(all);
    return all;
  }();
  return ops;
}

Run prepare(const Spec& spec, const Device& device) {
  const auto op = std::ranges::find(all_ops(), spec.op, &Op::name);
  if (op == all_ops().end()) fail<ValueError>("bench_kernels", "no op '{}'", spec.op);
  return op->prepare(spec, device);
}

}  // namespace ferrite::bench
