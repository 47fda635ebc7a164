#include "ferrite/parallel/tensor_parallel/parallel_linear.h"

#include <utility>

#include "ferrite/nn/repr.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/parallel/tensor_parallel/groups.h"
#include "ferrite/parallel/tensor_parallel/regions.h"

namespace ferrite::parallel {

namespace {

int ranks_of(const std::shared_ptr<ProcessGroup>& group) { return group ? group->size() : 1; }
int rank_of(const std::shared_ptr<ProcessGroup>& group) { return group ? group->rank() : 0; }

/// This rank's part along `dim`, without keeping the whole.
Tensor part_of(const Tensor& whole, int dim, const std::shared_ptr<ProcessGroup>& group) {
  if (!group) return whole;
  const std::int64_t size = whole.size(dim) / group->size();
  return whole.narrow(dim, group->rank() * size, size).clone(kContiguous);
}

SplitTensor split_tensor(const char* name, const Tensor& part, int dim,
                         const std::shared_ptr<ProcessGroup>& group) {
  Shape whole = part.shape();
  whole[dim] *= ranks_of(group);
  return {.name = name,
          .whole = name,
          .dim = dim,
          .begin = rank_of(group) * part.size(dim),
          .shape = whole};
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(std::int64_t in_features, std::int64_t out_features,
                                           const ColumnParallelLinearOptions& options)
    : group_(tensor_parallel::group_of_several(options.group)),
      gather_output_(options.gather_output) {
  if (group_)
    tensor_parallel::divided(out_features, *group_, "ColumnParallelLinear", "out_features");
  const tensor_parallel::DrawnLinear whole = tensor_parallel::draw_linear(
      in_features, out_features, options.bias, options.generator, group_.get());
  weight = part_of(whole.weight, 0, group_);
  if (options.bias) bias = part_of(whole.bias, 0, group_);
  register_parameter("weight", weight);
  register_parameter("bias", bias);
}

Tensor ColumnParallelLinear::forward(const Tensor& input) {
  if (!group_) return linear(input, weight, bias);
  const Tensor part = linear(copy_to_tensor_model_parallel_region(input, group_), weight, bias);
  return gather_output_ ? gather_from_tensor_model_parallel_region(part, group_) : part;
}

std::string ColumnParallelLinear::extra_repr() const {
  return fmt::format("in_features={}, out_features={}, bias={}, gather_output={}, rank={} of {}",
                     weight.size(1), weight.size(0) * ranks_of(group_), nn::repr(bias.defined()),
                     nn::repr(gather_output_), rank_of(group_), ranks_of(group_));
}

std::optional<std::int64_t> ColumnParallelLinear::multiply_adds(
    std::span<const Tensor>, std::span<const Tensor> outputs) const {
  return outputs[0].numel() * weight.size(1) / (gather_output_ ? ranks_of(group_) : 1);
}

std::vector<SplitTensor> ColumnParallelLinear::split_tensors() const {
  std::vector<SplitTensor> split = {split_tensor("weight", weight, 0, group_)};
  if (bias.defined()) split.push_back(split_tensor("bias", bias, 0, group_));
  return split;
}

RowParallelLinear::RowParallelLinear(std::int64_t in_features, std::int64_t out_features,
                                     const RowParallelLinearOptions& options)
    : group_(tensor_parallel::group_of_several(options.group)),
      input_is_parallel_(options.input_is_parallel) {
  if (group_) tensor_parallel::divided(in_features, *group_, "RowParallelLinear", "in_features");
  tensor_parallel::DrawnLinear whole = tensor_parallel::draw_linear(
      in_features, out_features, options.bias, options.generator, group_.get());
  weight = part_of(whole.weight, 1, group_);
  bias = std::move(whole.bias);
  register_parameter("weight", weight);
  register_parameter("bias", bias);
}

Tensor RowParallelLinear::forward(const Tensor& input) {
  if (!group_) return linear(input, weight, bias);
  const Tensor part =
      input_is_parallel_ ? input : scatter_to_tensor_model_parallel_region(input, group_);
  const Tensor sum = reduce_from_tensor_model_parallel_region(linear(part, weight), group_);
  return bias.defined() ? sum + bias.to(sum.dtype()) : sum;
}

std::string RowParallelLinear::extra_repr() const {
  return fmt::format(
      "in_features={}, out_features={}, bias={}, input_is_parallel={}, rank={} of {}",
      weight.size(1) * ranks_of(group_), weight.size(0), nn::repr(bias.defined()),
      nn::repr(input_is_parallel_), rank_of(group_), ranks_of(group_));
}

std::optional<std::int64_t> RowParallelLinear::multiply_adds(
    std::span<const Tensor>, std::span<const Tensor> outputs) const {
  return outputs[0].numel() * weight.size(1);
}

std::vector<SplitTensor> RowParallelLinear::split_tensors() const {
  return {split_tensor("weight", weight, 1, group_)};
}

ParallelMLP::ParallelMLP(std::int64_t hidden, std::int64_t ffn_hidden,
                         const ParallelMLPOptions& options)
    : fc1(hidden, ffn_hidden,
          {.bias = options.bias,
           .gather_output = false,
           .group = options.group,
           .generator = options.generator}),
      fc2(ffn_hidden, hidden,
          {.bias = options.bias,
           .input_is_parallel = true,
           .group = options.group,
           .generator = options.generator}) {
  register_module("fc1", fc1);
  register_module("fc2", fc2);
}

Tensor ParallelMLP::forward(const Tensor& input) { return fc2(gelu(fc1(input))); }

}  // namespace ferrite::parallel
