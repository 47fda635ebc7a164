// The cases of bench_kernels: kernels, with shapes and dtypes.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"

namespace ferrite::bench {

/// A kernel with a shape and a dtype: sent to both sides by compare.py.
struct Spec {
  std::string family, op;
  Shape shape;  ///< of the main input
  DType dtype = kFloat32;
  bool channels_last = false;
  // For convolutions, products and pooling.
  std::int64_t outputs = 0;  ///< channels or columns of the result
  std::int64_t kernel = 1, stride = 1, padding = 0;

  /// "add [1048576] float32".
  std::string str() const;
};

nlohmann::json to_json(const Spec& spec);
Spec spec_from(const nlohmann::json& json);

/// A prepared call, with its own operands.
struct Run {
  std::function<void(const Stream&)> call;
  double bytes = 0;  ///< bytes that must be read and written: each operand once for every pass
                     ///< needed
  double flops = 0;  ///< for products and convolutions; 0: memory-bound
};

struct Op {
  std::string family, name;
  /// The shape with this many elements; null for ops that only have shapes of networks.
  std::function<Shape(std::int64_t numel)> shape;
  std::function<Run(const Spec&, const Device&)> prepare;
  std::vector<DType> dtypes = {kFloat32, kFloat16, kBFloat16};
};

/// Random values, in [0.05, 0.95), positive so that every op accepts them.
Tensor random_values(const Shape& shape, DType dtype, const Device& device,
                     MemoryFormat format = kContiguous);

void add_elementwise_ops(std::vector<Op>& ops);
void add_row_ops(std::vector<Op>& ops);
void add_optimizer_ops(std::vector<Op>& ops);
void add_network_ops(std::vector<Op>& ops);
const std::vector<Op>& all_ops();

/// Layers of LeNet-5 and of ResNet-18 on 224 x 224 images, with `batch` images (ResNet-18) and 8
/// times as many (LeNet-5).
std::vector<Spec> network_specs(std::int64_t batch);

Run prepare(const Spec& spec, const Device& device);

}  // namespace ferrite::bench
