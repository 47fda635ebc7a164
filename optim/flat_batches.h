// Tensors as arrays, for kernels that work on many at once.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/kernels/multi_tensor.h"

namespace ferrite::optim {

/// Dense arrays, or pairs of them, in a batch for each device and dtype (or pair of dtypes).
/// Tensors that are not dense are copied. All arrays live as long as this object.
class FlatBatches {
 public:
  struct Batch {
    Device device;
    kernels::FlatTensors to, from;  ///< `from` is empty where tensors were added alone
  };

  FlatBatches() = default;
  /// Batches of all gradients.
  static FlatBatches of_gradients(std::span<const Tensor> parameters);

  /// Does nothing for an undefined tensor.
  void add(const Tensor& tensor);
  /// A dense tensor and what it is made from, of the same shape, anywhere.
  void add(const Tensor& to, const Tensor& from);

  const std::vector<Batch>& batches() const { return batches_; }
  /// Call it after tensors that were added alone have changed: copies are written back to tensors
  /// that are not dense. Errors of the tape name `op`, a string literal.
  void write_back(const char* op) const;

 private:
  Batch& batch_for(const Tensor& to, DType from);

  std::vector<Batch> batches_;
  std::vector<std::pair<Tensor, Tensor>> tensors_;  // and their arrays, mostly themselves
};

}  // namespace ferrite::optim
