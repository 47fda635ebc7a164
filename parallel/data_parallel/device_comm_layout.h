// The layout of many tensors in one flat memory block.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite::parallel::dp {

/// Strides without gaps for a copy of `t`: those of `t` if its elements are contiguous in any order
/// of the dimensions, else those of its memory format.
Strides dense_strides(const Tensor& t);

/// Whether the elements of `t` are contiguous in the order of `strides`.
bool lies_as(const Tensor& t, const Strides& strides);

/// Positions of copies of tensors: each begins at a multiple of 64 bytes; packed ones come first,
/// by dtype, so that they are contiguous. Undefined tensors have no position.
class FlatLayout {
 public:
  /// Packs tensors smaller than `packed_below` bytes, and those that are not dense.
  FlatLayout(std::span<const Tensor> tensors, std::size_t packed_below);

  std::size_t bytes() const { return bytes_; }
  /// Total size of the packed tensors.
  std::size_t packed_bytes() const { return packed_bytes_; }
  /// The packed tensors of one dtype.
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

  /// Memory on `device`, allocated on its current stream.
  static Tensor allocate(const Device& device, std::size_t bytes);
  /// Tensor number i in `flat`, with a version counter of its own.
  Tensor view(const Tensor& flat, std::size_t i) const;
  std::vector<Tensor> views(const Tensor& flat) const;
  /// Copies the packed ones of `tensors` to their positions in `flat`, on the same device; skips
  /// undefined ones.
  void pack(const Stream& stream, std::span<const Tensor> tensors, const Tensor& flat) const;

 private:
  struct Part {
    Shape shape;
    Strides strides;
    DType dtype = kFloat32;
    std::size_t offset = 0, nbytes = 0;  // from the start of the flat memory
    bool defined = false;
  };
  std::vector<Part> parts_;
  std::vector<Run> runs_;
  std::size_t bytes_ = 0, packed_bytes_ = 0;
};

}  // namespace ferrite::parallel::dp
