#include "ferrite/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "ferrite/core/views.h"
#include "ferrite/data/host.h"
#include "ferrite/data/transforms.h"

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

thread_local Generator* sample_generator = nullptr;

}  // namespace

Generator Epoch::generator(std::int64_t index) const {
  const std::uint64_t first =
      mix(mix(mix(seed) + static_cast<std::uint64_t>(number)) + static_cast<std::uint64_t>(index));
  return Generator(repeat == 0 ? first : mix(first + static_cast<std::uint64_t>(repeat)));
}

impl::SampleGenerator::SampleGenerator(Generator& generator, std::uint64_t part)
    : before_(std::exchange(sample_generator, &generator)),
      scope_(default_generator(Device()), {.seed = mix(mix(~generator.seed()) + part)}) {}

impl::SampleGenerator::~SampleGenerator() { sample_generator = before_; }

Generator& transform_generator() {
  return sample_generator ? *sample_generator : default_generator(Device());
}

void check_index(std::int64_t index, std::int64_t size, std::string_view op) {
  FERRITE_CHECK(index >= 0 && index < size, IndexError, op,
                "index {} is out of range: expected 0 to {}", index, size - 1);
}

Tensor gather_rows(const Tensor& tensor, std::span<const std::int64_t> indices) {
  FERRITE_CHECK(tensor.defined() && tensor.dim() > 0, ShapeError, "gather_rows",
                "expected at least one dimension, got {}", tensor.describe());
  const Tensor dense = host_contiguous(tensor, "gather_rows");
  Shape shape = dense.shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  Tensor out = empty(shape, {.dtype = dense.dtype(), .device = kCPU});
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

template class DatasetOf<Sample>;
template class RandomDatasetOf<Sample>;

namespace impl {

Tensor row_of(const Tensor& tensor, std::int64_t index) {
  return tensor.defined() ? geometry::apply(tensor, geometry::select(tensor, 0, index)) : tensor;
}

std::vector<std::int64_t> count_repeats(std::span<const std::int64_t> indices) {
  if (indices.empty()) return {};
  std::vector<std::int64_t> repeats(indices.size());
  const auto count = [&](auto& seen, std::int64_t low) {
    bool any = false;
    for (std::size_t n = 0; n < indices.size(); ++n) {
      repeats[n] = seen[static_cast<std::size_t>(indices[n] - low)]++;
      any = any || repeats[n] > 0;
    }
    return any;
  };
  const auto [low, high] = std::ranges::minmax(indices);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  bool any = false;
  if (range < 8 * indices.size()) {
    std::vector<std::int64_t> seen(static_cast<std::size_t>(range) + 1);
    any = count(seen, low);
  } else {  // a few of very many samples
    std::unordered_map<std::size_t, std::int64_t> seen;
    any = count(seen, 0);
  }
  return any ? repeats : std::vector<std::int64_t>();
}

std::int64_t make_rows(std::span<Tensor* const> tensors) {
  const Tensor* first = nullptr;
  for (Tensor* tensor : tensors) {
    if (!tensor->defined()) continue;
    *tensor = host_contiguous(*tensor, "tensor_dataset");
    FERRITE_CHECK(tensor->dim() > 0, ShapeError, "tensor_dataset",
                  "expected tensors of at least one dimension, got {}", tensor->describe());
    if (!first) first = tensor;
    FERRITE_CHECK(tensor->size(0) == first->size(0), ShapeError, "tensor_dataset",
                  "expected tensors of one first size, a row for each sample, got {} and {}",
                  first->shape(), tensor->shape());
  }
  FERRITE_CHECK(first, ValueError, "tensor_dataset", "expected a tensor, got an undefined one");
  return first->size(0);
}

}  // namespace impl

}  // namespace ferrite::data
