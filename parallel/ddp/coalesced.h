// Communicates many tensors as a few.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel::ddp {

/// A view of complex numbers as pairs of real ones (view_as_real()), which groups communicate;
/// other tensors as they are.
Tensor real_of(const Tensor& t);

/// Tensors packed into flat ones of one dtype, one device and `max_bytes` each (or one larger
/// tensor). Keeps the flat tensors between calls, for tensors that are broadcast each step.
class CoalescedTensors {
 public:
  explicit CoalescedTensors(std::vector<Tensor> tensors,
                            std::size_t max_bytes = std::size_t{256} << 20);

  bool empty() const { return tensors_.empty(); }
  /// Takes these tensors in place of the ones so far, which may be the same.
  void set(std::vector<Tensor> tensors);
  /// All ranks get root's values, in place. Any strides; bool tensors are sent as bytes,
  /// complex ones as real numbers.
  void broadcast(ProcessGroup& group, int root = 0);

 private:
  struct Part {
    Tensor flat;
    std::vector<Tensor> tensors, views;
  };
  void pack();
  bool fits() const;

  std::vector<Tensor> tensors_;
  std::size_t max_bytes_;
  std::vector<Part> parts_;
};

/// The blocking form for a single use.
void broadcast_coalesced(ProcessGroup& group, std::span<const Tensor> tensors, int root = 0);

}  // namespace ferrite::parallel::ddp
