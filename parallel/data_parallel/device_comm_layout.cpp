#include "ferrite/parallel/data_parallel/device_comm_layout.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "ferrite/core/storage_part.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/multi_tensor.h"

namespace ferrite::parallel::dp {

namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Whether the elements are contiguous in memory, in any order of the dimensions.
bool is_dense(const Tensor& t) {
  std::array<int, kMaxDims> order{};
  int count = 0;
  for (int d = 0; d < t.dim(); ++d)
    if (t.shape()[d] != 1) order[static_cast<std::size_t>(count++)] = d;
  const auto dims = std::span(order).first(static_cast<std::size_t>(count));
  std::ranges::stable_sort(dims, [&](int a, int b) { return t.strides()[a] < t.strides()[b]; });
  std::int64_t expected = 1;
  for (const int d : dims) {
    if (t.strides()[d] != expected) return false;
    expected *= t.shape()[d];
  }
  return true;
}

}  // namespace

Strides dense_strides(const Tensor& t) {
  if (t.numel() > 0 && is_dense(t)) return t.strides();
  return strides_of(t.shape(), t.suggest_memory_format());
}

bool lies_as(const Tensor& t, const Strides& strides) {
  if (t.numel() == 0) return true;
  for (int d = 0; d < t.dim(); ++d)
    if (t.shape()[d] != 1 && t.strides()[d] != strides[d]) return false;
  return true;
}

FlatLayout::FlatLayout(std::span<const Tensor> tensors, std::size_t packed_below) {
  parts_.resize(tensors.size());
  std::vector<bool> packed(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    if (!t.defined()) continue;
    parts_[i] = {t.shape(), dense_strides(t), t.dtype(), 0, t.nbytes(), true};
    packed[i] = t.nbytes() < packed_below || !lies_as(t, parts_[i].strides);
  }
  const auto place = [this](Part& part) {
    part.offset = bytes_;
    bytes_ += aligned(part.nbytes);
  };
  std::set<DType> dtypes;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (packed[i]) dtypes.insert(parts_[i].dtype);
  for (const DType dtype : dtypes) {
    const std::size_t start = bytes_;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (packed[i] && parts_[i].dtype == dtype) place(parts_[i]);
    if (bytes_ > start) runs_.push_back({dtype, start, bytes_ - start});
  }
  packed_bytes_ = bytes_;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i].defined && !packed[i]) place(parts_[i]);
}

Tensor FlatLayout::allocate(const Device& device, std::size_t bytes) {
  return empty({static_cast<std::int64_t>(bytes)}, {.dtype = kUInt8, .device = device});
}

Tensor FlatLayout::view(const Tensor& flat, std::size_t i) const {
  const Part& part = parts_[i];
  const std::size_t first = part.nbytes > 0 ? part.offset / itemsize(part.dtype) : 0;
  return Tensor(make_intrusive<TensorImpl>(ferrite::detail::part_of(flat.storage()), part.shape,
                                           part.strides, static_cast<std::int64_t>(first),
                                           part.dtype));
}

std::vector<Tensor> FlatLayout::views(const Tensor& flat) const {
  std::vector<Tensor> views(parts_.size());
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (has(i)) views[i] = view(flat, i);
  return views;
}

void FlatLayout::pack(const Stream& stream, std::span<const Tensor> tensors,
                      const Tensor& flat) const {
  std::vector<kernels::CopyPart> copies;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || !is_packed(i) || tensors[i].numel() == 0) continue;
    if (lies_as(tensors[i], strides(i)))
      copies.push_back({static_cast<char*>(flat.data_ptr()) + offset(i), tensors[i].data_ptr(),
                        static_cast<std::int64_t>(tensors[i].nbytes())});
    else
      kernels::copy(stream, view(flat, i), tensors[i]);
  }
  kernels::copy_parts(stream, copies);
}

}  // namespace ferrite::parallel::dp
