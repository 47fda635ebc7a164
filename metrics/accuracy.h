// Top-k accuracy: how often the right class is among the first k.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"

namespace ferrite::metrics {

/// As `accuracy` in PyTorch's examples: for each k of `topk`, the percentage of samples whose class
/// is among the k largest outputs; float32, 0-dimensional, on the device of `output`. Does not
/// wait. `output`, `target` and ties as in Accuracy::update.
std::vector<Tensor> accuracy(const Tensor& output, const Tensor& target,
                             std::span<const std::int64_t> topk);
std::vector<Tensor> accuracy(const Tensor& output, const Tensor& target,
                             std::initializer_list<std::int64_t> topk = {1});

/// The same over many batches, as fractions. Counts are integers on the device; update() does not
/// wait and may be part of a CUDA graph, value() waits.
class Accuracy {
 public:
  /// ValueError if `topk` is empty or has a number below 1. Labels equal to `ignore_index` are not
  /// counted as samples.
  explicit Accuracy(const Device& device = {}, std::vector<std::int64_t> topk = {1},
                    std::int64_t ignore_index = -100);
  Accuracy(Accuracy&&) = default;
  Accuracy& operator=(Accuracy&&) = default;

  /// `output` [N, C] (or [N, C, d1, ...]): scores of C classes, logits as well as probabilities.
  /// `target` [N] (or [N, d1, ...]): class indices; or floating-point in the shape of `output`,
  /// whose largest entry is the class (mixed or smoothed labels). Among equal scores the lower
  /// class ranks first (torch.topk leaves the order open); NaN ranks above every number. If a k
  /// exceeds C, every valid class is among the first k. A class index out of range counts as a
  /// sample that is wrong. ShapeError, DTypeError, DeviceError.
  void update(const Tensor& output, const Tensor& target);
  void reset();

  /// In [0, 1], in the order of `topk`; 0 if there were no samples. Waits for the device.
  std::vector<double> values() const;
  /// The value for one k (ValueError if `topk` does not have it).
  double value(std::int64_t k) const;
  /// The value for the first k.
  double value() const { return values().front(); }
  /// Samples so far. Waits for the device.
  std::int64_t total() const;

  /// The numbers of best classes that count.
  const std::vector<std::int64_t>& topk() const { return topk_; }
  /// int64 [max k + 1] on the device, for an all-reduce: how often the class had each rank, and the
  /// number of samples.
  const Tensor& counts() const { return counts_; }

  /// "counts", a copy on the device.
  StateDict state_dict() const;
  /// ShapeError if it was saved with another max k.
  void load_state_dict(const StateDict& dict);

 private:
  std::vector<std::int64_t> topk_;
  std::int64_t ignore_index_;
  Tensor counts_, places_, total_;  // the last two are views of the first
};

}  // namespace ferrite::metrics
