// Sums, means and maxima of rows of a table.
#pragma once

#include <optional>

#include "ferrite/core/choice.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// How the rows of a bag become one: sum, mean or max.
enum class BagMode : std::uint8_t { sum, mean, max };
template <>
struct detail::ChoiceNames<BagMode> {
  static constexpr const char* kOption = "mode";
  static constexpr std::pair<const char*, BagMode> kNames[] = {
      {"sum", BagMode::sum}, {"mean", BagMode::mean}, {"max", BagMode::max}};
};

/// The options of embedding_bag().
struct EmbeddingBagOptions {
  /// Limits the norms of the rows that are looked up, in place: see EmbeddingOptions (ops/index.h).
  std::optional<double> max_norm = {};
  double norm_type = 2;  ///< the p of the p-norm that max_norm limits
  /// Whether the gradient of a row is divided by how often the indices contain it; ValueError with
  /// BagMode::max.
  bool scale_grad_by_freq = false;
  Choice<BagMode> mode = BagMode::mean;
  Tensor per_sample_weights = {};    ///< of the shape of the indices; with `sum` only (ValueError)
  bool include_last_offset = false;  ///< the last offset is the end of the last bag
  std::optional<std::int64_t> padding_idx = {};  ///< a row that does not count; may be negative
};

/// The rows of `weight` [num_embeddings, width], floating, at `indices`, int64 or int32
/// (DTypeError), reduced bag by bag: [bags, width]. Bags are the rows of `indices` [bags, n], or
/// `indices` [n] from each of the `offsets` [bags] on to the next. Empty bags are 0. With offsets,
/// `max` waits for the device. ShapeError for others; IndexError of rows and errors of `max_norm`
/// as of embedding(). Offsets begin with 0, do not decrease, and are at most n; with
/// include_last_offset the last is n. Others are a ValueError on the host, and with `max`; on other
/// devices those outside 0 to n are an IndexError at the next synchronization.
Tensor embedding_bag(const Tensor& indices, const Tensor& weight, const Tensor& offsets = {},
                     const EmbeddingBagOptions& options = {});

}  // namespace ferrite
