#include "parallel/data_parallel/device_comm_layout.h"

#include <algorithm>
#include <array>

namespace ferrite::parallel {

namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Whether the elements lie in one run, in whatever order of the dimensions.
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
  for (const bool those_packed : {true, false}) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].defined || packed[i] != those_packed) continue;
      parts_[i].offset = bytes_;
      bytes_ += aligned(parts_[i].nbytes);
    }
    if (those_packed) packed_bytes_ = bytes_;
  }
}

Tensor FlatLayout::allocate(const Device& device, std::size_t bytes) const {
  return empty({static_cast<std::int64_t>(bytes)}, {.dtype = kUInt8, .device = device});
}

Tensor FlatLayout::view(const Tensor& flat, std::size_t i, std::size_t start) const {
  const Part& part = parts_[i];
  const std::size_t first = part.nbytes == 0 ? 0 : start + part.offset;
  return Tensor(IntrusivePtr<TensorImpl>(
      new TensorImpl(flat.storage(), part.shape, part.strides,
                     static_cast<std::int64_t>(first / itemsize(part.dtype)), part.dtype)));
}

}  // namespace ferrite::parallel
