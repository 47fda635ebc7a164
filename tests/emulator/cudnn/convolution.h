// Convolutions of the emulator's cuDNN.
#pragma once

#include <string>
#include <vector>

#include "ferrite/tests/emulator/cudnn/tensor.h"

namespace emulator::cudnn {

/// The operation of a graph that convolves, or computes one of a convolution's gradients.
class Convolution {
 public:
  static bool is_one(const Node& operation);
  explicit Convolution(const Node& operation);

  // The descriptors of its operands, whichever of them it computes.
  const Node& input() const { return *input_; }
  const Node& weight() const { return *weight_; }
  const Node& out() const { return *out_; }
  const Node& result() const;
  std::string name() const;
  /// Whether it adds to its result.
  bool adds() const { return beta_ != 0; }
  /// Two for a multiplication and addition.
  std::uint64_t operations() const;

  void run(Tensor& input, Tensor& weight, Tensor& out) const;

 private:
  cudnnBackendDescriptorType_t type_;
  const Node *input_, *weight_, *out_;
  std::vector<std::int64_t> before_, dilation_, stride_;
  float alpha_, beta_;
};

/// Each channel's sum, and sum of squares.
void sums(const Tensor& x, Tensor& sum, Tensor& squares);

/// The tensors of an operation, virtual ones too.
struct Operands {
  std::vector<const Node*> read, written;
};
Operands operands_of(const Node& operation);
/// 0 for a virtual tensor.
std::size_t bytes_of(const Node& tensor);

}  // namespace emulator::cudnn
