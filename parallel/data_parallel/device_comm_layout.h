// How many tensors lie in one flat piece of memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite::parallel::dp {

/// Strides without gaps for a copy of `t`: those of `t` where its elements lie in one run, in
/// whatever order, else of its memory format.
Strides dense_strides(const Tensor& t);

/// Whether the elements of `t` lie in one run in the order of `strides`.
bool lies_as(const Tensor& t, const Strides& strides);

/// Where copies of tensors go: each begins at a multiple of 64 bytes; those that are to be packed
/// come first, by dtype, so that they are one run. Undefined tensors have no place.
class FlatLayout {
 public:
  /// Those smaller than `packed_below` bytes are packed, and those that are not dense.
  FlatLayout(std::span<const Tensor> tensors, std::size_t packed_below);

  std::size_t bytes() const { return bytes_; }
  /// Of the run of those that are packed.
  std::size_t packed_bytes() const { return packed_bytes_; }
  /// Of those of one dtype in it.
  struct Run {
    DType dtype;
    std::size_t offset, bytes;
  };
  std::span<const Run> runs() const { return runs_; }
  bool has(std::size_t i) const { return parts_[i].defined; }
  bool is_packed(std::size_t i) const { return has(i) && parts_[i].offset < packed_bytes_; }
  std::size_t offset(std::size_t i) const { return parts_[i].offset; }
  std::size_t nbytes(std::size_t i) const { return parts_[i].nbytes; }
  const Strides& strides(std::size_t i) const { return parts_[i].strides; }

  /// Memory on `device`, of its current stream.
  static Tensor allocate(const Device& device, std::size_t bytes);
  /// Tensor number i in `flat`, with a version of its own.
  Tensor view(const Tensor& flat, std::size_t i) const;
  std::vector<Tensor> views(const Tensor& flat) const;
  /// Copies those of `tensors` that are packed to their places in `flat`, on the same device;
  /// undefined ones are left out.
  void pack(const Stream& stream, std::span<const Tensor> tensors, const Tensor& flat) const;

 private:
  struct Part {
    Shape shape;
    Strides strides;
    DType dtype = kFloat32;
    std::size_t offset = 0, nbytes = 0;  // from the beginning of the flat memory
    bool defined = false;
  };
  std::vector<Part> parts_;
  std::vector<Run> runs_;
  std::size_t bytes_ = 0, packed_bytes_ = 0;
};

}  // namespace ferrite::parallel::dp
