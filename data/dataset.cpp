#include "ferrite/data/dataset.h"

#include <cstring>

#include "ferrite/core/views.h"
#include "ferrite/data/collation.h"
#include "ferrite/data/host.h"

namespace ferrite::data {

namespace {

/// SplitMix64's output function (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014): a bijection that spreads every bit.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

Generator Epoch::generator(std::int64_t index) const {
  return Generator(
      mix(mix(mix(seed) + static_cast<std::uint64_t>(number)) + static_cast<std::uint64_t>(index)));
}

void check_index(std::int64_t index, std::int64_t size, std::string_view op) {
  FERRITE_CHECK(index >= 0 && index < size, IndexError, op,
                "index {} is out of range: expected 0 to {}", index, size - 1);
}

Tensor stack(std::span<const Tensor> tensors) {
  Collation batch(static_cast<std::int64_t>(tensors.size()));
  for (const Tensor& tensor : tensors) batch.add(tensor);
  return batch.take();
}

Tensor gather_rows(const Tensor& tensor, std::span<const std::int64_t> indices) {
  FERRITE_CHECK(tensor.defined() && tensor.dim() > 0, ShapeError, "gather_rows",
                "expected at least one dimension, got {}", tensor.describe());
  const Tensor dense = host_contiguous(tensor, "gather_rows");
  Shape shape = dense.shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  Tensor out = empty(shape, {.dtype = dense.dtype()});
  for (const std::int64_t i : indices) check_index(i, dense.size(0), "gather_rows");
  if (out.nbytes() == 0) return out;
  const std::size_t row = out.nbytes() / indices.size();
  const auto* in = static_cast<const char*>(dense.data_ptr());
  auto* p = static_cast<char*>(out.data_ptr());
  for (const std::int64_t i : indices) {
    std::memcpy(p, in + static_cast<std::size_t>(i) * row, row);
    p += row;
  }
  return out;
}

Batch Dataset::get_batch(std::span<const std::int64_t> indices, const Epoch&) const {
  std::vector<Tensor> inputs, labels;
  inputs.reserve(indices.size()), labels.reserve(indices.size());
  for (const std::int64_t i : indices) {
    Sample sample = get(i);
    inputs.push_back(std::move(sample.input));
    labels.push_back(std::move(sample.label));
  }
  return {stack(inputs), stack(labels)};
}

TensorDataset::TensorDataset(const Tensor& inputs, const Tensor& labels)
    : inputs_(host_contiguous(inputs, "tensor_dataset")),
      labels_(host_contiguous(labels, "tensor_dataset")) {
  FERRITE_CHECK(inputs_.dim() > 0 && labels_.dim() > 0 && inputs_.size(0) == labels_.size(0),
                ShapeError, "tensor_dataset", "expected as many labels as inputs, got {} and {}",
                inputs_.shape(), labels_.shape());
}

Sample TensorDataset::get(std::int64_t index) const {
  check_index(index, size(), "tensor_dataset");
  return {geometry::apply(inputs_, geometry::select(inputs_, 0, index)),
          geometry::apply(labels_, geometry::select(labels_, 0, index))};
}

Batch TensorDataset::get_batch(std::span<const std::int64_t> indices, const Epoch&) const {
  return {gather_rows(inputs_, indices), gather_rows(labels_, indices)};
}

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  FERRITE_CHECK(dataset_ != nullptr, ValueError, "subset", "expected a data set, got null");
  for (const std::int64_t i : indices_) check_index(i, dataset_->size(), "subset");
}

Sample Subset::get(std::int64_t index) const {
  check_index(index, size(), "subset");
  return dataset_->get(indices_[static_cast<std::size_t>(index)]);
}

Batch Subset::get_batch(std::span<const std::int64_t> indices, const Epoch& epoch) const {
  std::vector<std::int64_t> original;
  original.reserve(indices.size());
  for (const std::int64_t i : indices) {
    check_index(i, size(), "subset");
    original.push_back(indices_[static_cast<std::size_t>(i)]);
  }
  return dataset_->get_batch(original, epoch);
}

}  // namespace ferrite::data
