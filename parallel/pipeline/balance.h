// Where to cut a list of layers so that no stage of a pipeline has much more to do than the others
// (torchgpipe.balance).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ferrite/nn/containers.h"

namespace ferrite::parallel {

struct BalanceByTimeOptions {
  /// Where the layers are measured: on the host unless given. Stages on virtual devices of the host
  /// take the host's times.
  Device device = {};
  double seconds = 1;  ///< to measure for; every layer at least once
};

struct BalanceBySizeOptions {
  Device device = {};
  int chunks = 1;  ///< micro-batches that `sample` will be split into
  /// What a byte of a parameter costs in all: itself, its gradient, the optimizer's state. 2 to 3
  /// for SGD (with momentum), 4 to 5 for Adam.
  double param_scale = 2;
};

/// Layers a stage, one number a stage, the first layers first, such that the most expensive stage
/// is as cheap as possible; among those, with the smaller sum of squares. Every stage has a layer:
/// ValueError where there are fewer layers than stages, or a cost is negative.
std::vector<std::int64_t> balance_by_cost(int stages, std::span<const double> costs);

/// The same by how long forward and backward of each layer take (medians), given `sample`, a batch
/// for the whole model. Layers are measured on copies: the model is left as it is.
std::vector<std::int64_t> balance_by_time(int stages, nn::Sequential& model, const Tensor& sample,
                                          const BalanceByTimeOptions& options = {});

/// The same by bytes: what each layer keeps for backward of a micro-batch, and its parameters.
std::vector<std::int64_t> balance_by_size(int stages, nn::Sequential& model, const Tensor& sample,
                                          const BalanceBySizeOptions& options = {});

/// Milliseconds of forward and backward, and bytes, of each layer: what the above go by.
std::vector<double> layer_times(nn::Sequential& model, const Tensor& sample,
                                const BalanceByTimeOptions& options = {});
std::vector<double> layer_sizes(nn::Sequential& model, const Tensor& sample,
                                const BalanceBySizeOptions& options = {});

}  // namespace ferrite::parallel
