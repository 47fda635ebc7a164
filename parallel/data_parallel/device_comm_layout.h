// How many tensors lie in one flat piece of memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace ferrite::parallel {

/// Strides without gaps for a copy of `t`: those of `t` where its elements lie in one run, in
/// whatever order, else of its memory format.
Strides dense_strides(const Tensor& t);

/// Whether the elements of `t` lie in one run in the order of `strides`.
bool lies_as(const Tensor& t, const Strides& strides);

/// Where copies of tensors go: each begins at a multiple of 64 bytes; those that are to be packed
/// come first, so that they are one run. Undefined tensors have no place.
class FlatLayout {
 public:
  /// Those smaller than `packed_below` bytes are packed, and those that are not dense.
  FlatLayout(std::span<const Tensor> tensors, std::size_t packed_below);

  std::size_t bytes() const { return bytes_; }
  /// Of the run of those that are packed.
  std::size_t packed_bytes() const { return packed_bytes_; }
  bool has(std::size_t i) const { return parts_[i].defined; }
  bool is_packed(std::size_t i) const { return has(i) && parts_[i].offset < packed_bytes_; }
  std::size_t offset(std::size_t i) const { return parts_[i].offset; }
  std::size_t nbytes(std::size_t i) const { return parts_[i].nbytes; }
  const Strides& strides(std::size_t i) const { return parts_[i].strides; }

  /// Memory for all of it on `device`, from its current stream.
  Tensor allocate(const Device& device, std::size_t bytes) const;
  /// Tensor number i in `flat`, which begins at byte `start` of it.
  Tensor view(const Tensor& flat, std::size_t i, std::size_t start = 0) const;

 private:
  struct Part {
    Shape shape;
    Strides strides;
    DType dtype = kFloat32;
    std::size_t offset = 0, nbytes = 0;
    bool defined = false;
  };
  std::vector<Part> parts_;
  std::size_t bytes_ = 0, packed_bytes_ = 0;
};

}  // namespace ferrite::parallel
