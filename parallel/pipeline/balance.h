// Splits a list of layers into stages of similar cost (torchgpipe.balance).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ferrite/nn/containers.h"

namespace ferrite::parallel {

/// The options of balance_by_time().
struct BalanceByTimeOptions {
  /// Where the layers are measured; default: the host. For stages on virtual devices, use the
  /// host's times.
  Device device = {};
  double seconds = 1;  ///< measuring time; every layer runs at least once
};

/// The options of balance_by_size().
struct BalanceBySizeOptions {
  Device device = {};
  int chunks = 1;  ///< micro-batches that `sample` will be split into
  /// Memory per byte of a parameter: itself, its gradient, the optimizer's state. 2 to 3 for SGD
  /// (with momentum), 4 to 5 for Adam.
  double param_scale = 2;
};

/// The number of layers of each stage, in order, such that the cost of the most expensive stage is
/// minimal; ties go to the smaller sum of squares. Every stage has a layer: ValueError if there are
/// fewer layers than stages, or a cost is negative.
///
///   std::vector<double> costs{1, 1, 1, 3};
///   auto layers = parallel::balance_by_cost(2, costs);  // 3, 1
std::vector<std::int64_t> balance_by_cost(int stages, std::span<const double> costs);

/// As balance_by_cost(), by the time of each layer's forward and backward (medians) on `sample`, a
/// batch for the whole model. Layers are measured on copies: the model is unchanged.
std::vector<std::int64_t> balance_by_time(int stages, nn::Sequential& model, const Tensor& sample,
                                          const BalanceByTimeOptions& options = {});

/// As balance_by_cost(), by bytes: what each layer keeps for backward of a micro-batch, and its
/// parameters.
std::vector<std::int64_t> balance_by_size(int stages, nn::Sequential& model, const Tensor& sample,
                                          const BalanceBySizeOptions& options = {});

/// Milliseconds of forward and backward of each layer: the costs of balance_by_time().
std::vector<double> layer_times(nn::Sequential& model, const Tensor& sample,
                                const BalanceByTimeOptions& options = {});
/// The bytes that each layer takes, in training of a micro-batch: the costs of balance_by_size().
std::vector<double> layer_sizes(nn::Sequential& model, const Tensor& sample,
                                const BalanceBySizeOptions& options = {});

}  // namespace ferrite::parallel
