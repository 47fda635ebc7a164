// Linear layers whose matrix is split over several devices of one process: ColumnParallelLinear and
// RowParallelLinear (parallel_linear.h) without ranks.
//
//   parallel::ColumnSplitLinear up(1024, 4096, {"cuda:0", "cuda:1"});
//   parallel::RowSplitLinear down(4096, 1024, {"cuda:0", "cuda:1"});
//   std::vector<Tensor> h = up.forward_parts(x);
//   for (Tensor& part : h) part = gelu(part);
//   Tensor y = down(h);                 // on cuda:0
//
// The devices work at the same time, each on its part of the matrix; inputs and outputs are on the
// first. Sizes need not be divisible by the number of devices (split_sizes() in regions.h). Initial
// weights equal those of the corresponding nn::Linear, and so do outputs and gradients, up to
// rounding. The part of device i is module "i": "0.weight", "1.weight"; full_state_dict() has the
// unsplit layer's names. to(device) moves all parts to that one device, where the layer still
// works.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/nn/module.h"
#include "ferrite/parallel/tensor_parallel/split_module.h"

namespace ferrite::parallel {

struct SplitLinearOptions {
  bool bias = true;  ///< whether there is a bias
  /// For drawing weights; default: the host's default generator.
  Generator* generator = nullptr;
};

/// One device's part of a linear layer.
class LinearPart : public nn::Cloneable<LinearPart> {
 public:
  LinearPart(const Tensor& weight, const Tensor& bias);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;

  Tensor weight, bias;  ///< of the part; the bias may be undefined
};

/// The common base of both layers.
class SplitLinear : public nn::Module, public SplitModule {
 public:
  /// The current devices of the parts.
  std::vector<Device> devices() const;
  /// The part of the layer on the device of this number.
  LinearPart& part(std::size_t device) const;
  std::string extra_repr() const override;
  std::vector<SplitTensor> split_tensors() const override;

 protected:
  /// `dim` of the weight is split. ValueError if there is no device, or more devices than features
  /// to split.
  SplitLinear(std::int64_t in_features, std::int64_t out_features,
              const std::vector<Device>& devices, int dim, const SplitLinearOptions& options);
  /// For as many inputs, each on the device of its part.
  std::vector<Tensor> products(std::span<const Tensor> inputs) const;

  const std::int64_t in_features_, out_features_;
  Tensor bias_;  // of the row-split layer, on the first device

 private:
  const int dim_;
};

/// input weight^T + bias, where each device has a part of the outputs: rows of the weight.
class ColumnSplitLinear : public nn::Cloneable<ColumnSplitLinear, SplitLinear> {
 public:
  ColumnSplitLinear(std::int64_t in_features, std::int64_t out_features,
                    const std::vector<Device>& devices, const SplitLinearOptions& options = {});
  /// [..., in_features] to [..., out_features], gathered on the first device.
  Tensor forward(const Tensor& input) override;
  /// The parts of the output, each on its device.
  std::vector<Tensor> forward_parts(const Tensor& input);
  /// As above, for an input that has been copied to all devices (copy_to_devices), for several
  /// layers that share it.
  std::vector<Tensor> forward_parts(std::span<const Tensor> copies);
};

/// input weight^T + bias, where each device has a part of the inputs: columns of the weight. The
/// products are summed on the first device, where the bias is.
class RowSplitLinear : public nn::Cloneable<RowSplitLinear, SplitLinear> {
 public:
  RowSplitLinear(std::int64_t in_features, std::int64_t out_features,
                 const std::vector<Device>& devices, const SplitLinearOptions& options = {});
  /// [..., in_features], which is split, to [..., out_features].
  Tensor forward(const Tensor& input) override;
  /// For parts of the input, as returned by ColumnSplitLinear::forward_parts().
  Tensor forward(std::span<const Tensor> parts);
};

/// ParallelMLP (parallel_linear.h) over devices of one process: two layers with a GELU between, and
/// one sum at the end.
class SplitMLP : public nn::Cloneable<SplitMLP> {
 public:
  SplitMLP(std::int64_t hidden, std::int64_t ffn_hidden, const std::vector<Device>& devices,
           const SplitLinearOptions& options = {});
  Tensor forward(const Tensor& input) override;

  ColumnSplitLinear fc1;  ///< the column-split layer, from hidden to ffn_hidden
  RowSplitLinear fc2;     ///< the row-split layer, from ffn_hidden back to hidden
};

}  // namespace ferrite::parallel
