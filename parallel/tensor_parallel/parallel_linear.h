// Linear layers whose matrix is split over the ranks of a process group, with Megatron-LM's names
// and meanings (Shoeybi et al. 2019, section 3).
//
//   parallel::init_process_group("nccl");
//   parallel::ColumnParallelLinear up(1024, 4096, {.gather_output = false});
//   parallel::RowParallelLinear down(4096, 1024, {.input_is_parallel = true});
//   Tensor y = down(gelu(up(x)));       // one all-reduce in forward, one in backward
//
// Every rank calls the layers with the same input, and gets the same output and the same gradient
// of the input: code outside the layers need not know that they are split. Gradients of the parts
// are the corresponding parts of the whole layer's gradients; each rank's optimizer updates its
// own.
//
// Initial weights equal those of the corresponding nn::Linear: all ranks draw the whole matrix from
// rank 0's random state and keep their part; the generators of all ranks end in the state in which
// nn::Linear would leave rank 0's. Constructing a layer is collective. With one rank, or without a
// group, the layers are equivalent to nn::Linear.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/nn/module.h"
#include "ferrite/parallel/comm/process_group.h"
#include "ferrite/parallel/tensor_parallel/split_module.h"

namespace ferrite::parallel {

struct ColumnParallelLinearOptions {
  bool bias = true;  ///< whether there is a bias
  /// Whether every rank gets the whole output; else its part of the last dimension, for a following
  /// RowParallelLinear.
  bool gather_output = true;
  /// Default: the default group.
  std::shared_ptr<ProcessGroup> group = {};
  /// For drawing weights; default: the host's default generator.
  Generator* generator = nullptr;
};

/// input weight^T + bias: [..., in_features] to [..., out_features], where each rank has a part of
/// the outputs: rows of `weight`, which are columns of the matrix that multiplies the input.
class ColumnParallelLinear : public nn::Cloneable<ColumnParallelLinear>, public SplitModule {
 public:
  /// ValueError if out_features is not divisible by the number of ranks.
  ColumnParallelLinear(std::int64_t in_features, std::int64_t out_features,
                       const ColumnParallelLinearOptions& options = {});
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;
  std::vector<SplitTensor> split_tensors() const override;
  std::shared_ptr<ProcessGroup> group() const override { return group_; }
  /// Whether every rank gets the whole output, not only its part.
  bool gather_output() const { return gather_output_; }

  Tensor weight;  ///< [out_features / ranks, in_features]
  Tensor bias;    ///< [out_features / ranks]; undefined without bias

 private:
  std::shared_ptr<ProcessGroup> group_;  // null for a single process
  bool gather_output_;
};

struct RowParallelLinearOptions {
  bool bias = true;  ///< whether there is a bias
  /// Whether the input is this rank's part of the last dimension, from a ColumnParallelLinear; else
  /// it is whole, and split here.
  bool input_is_parallel = false;
  /// Default: the default group.
  std::shared_ptr<ProcessGroup> group = {};
  /// For drawing weights; default: the host's default generator.
  Generator* generator = nullptr;
};

/// input weight^T + bias: [..., in_features] to [..., out_features], where each rank has a part of
/// the inputs: columns of `weight`. The ranks' products are summed; the bias, which all ranks have,
/// is added after that.
class RowParallelLinear : public nn::Cloneable<RowParallelLinear>, public SplitModule {
 public:
  /// ValueError if in_features is not divisible by the number of ranks.
  RowParallelLinear(std::int64_t in_features, std::int64_t out_features,
                    const RowParallelLinearOptions& options = {});
  /// `input` [..., in_features], or [..., in_features / ranks] if input_is_parallel.
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;
  std::vector<SplitTensor> split_tensors() const override;
  std::shared_ptr<ProcessGroup> group() const override { return group_; }
  /// Whether each rank is given its part of the input, not the whole.
  bool input_is_parallel() const { return input_is_parallel_; }

  Tensor weight;  ///< [out_features, in_features / ranks]
  Tensor bias;    ///< [out_features], the same on all ranks; undefined without bias

 private:
  std::shared_ptr<ProcessGroup> group_;  // null for a single process
  bool input_is_parallel_;
};

struct ParallelMLPOptions {
  bool bias = true;  ///< whether there is a bias
  std::shared_ptr<ProcessGroup> group = {};
  Generator* generator = nullptr;  ///< what the weights are drawn from, the same on all ranks
};

/// The feed-forward block of a transformer: [..., hidden] to `ffn_hidden`, GELU, and back. `fc1` is
/// split by its columns and `fc2` by its rows, so that each rank computes from part to part
/// locally, and the ranks communicate only once, for the sum at the end.
class ParallelMLP : public nn::Cloneable<ParallelMLP> {
 public:
  ParallelMLP(std::int64_t hidden, std::int64_t ffn_hidden, const ParallelMLPOptions& options = {});
  Tensor forward(const Tensor& input) override;

  ColumnParallelLinear fc1;  ///< the column-parallel layer, from hidden to ffn_hidden
  RowParallelLinear fc2;     ///< the row-parallel layer, from ffn_hidden back to hidden
};

}  // namespace ferrite::parallel
