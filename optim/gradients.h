// The gradients of parameters as arrays for kernels that work on many at once.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/kernels/optim.h"

namespace ferrite::optim {

/// Dense arrays, a batch a device and dtype; gradients that are not dense are copied. Parameters
/// without a gradient are left out. The arrays live as long as this does.
class Gradients {
 public:
  struct Batch {
    Device device;
    kernels::FlatTensors arrays;
  };

  Gradients() = default;
  explicit Gradients(std::span<const Tensor> parameters) { add(parameters); }

  void add(std::span<const Tensor> parameters);
  /// The tensors themselves, and not their gradients.
  void add_arrays(std::span<const Tensor> tensors);
  const std::vector<Batch>& batches() const { return batches_; }
  /// For those who changed the arrays; `op`, a string literal, is what errors of the tape name.
  void write_back(const char* op) const;

 private:
  void add_array(Tensor tensor, std::size_t capacity);

  std::vector<Batch> batches_;
  std::vector<std::pair<Tensor, Tensor>> grads_;  // and the dense arrays, mostly themselves
};

}  // namespace ferrite::optim
