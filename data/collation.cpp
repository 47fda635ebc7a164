#include "ferrite/data/collation.h"

#include <cstddef>
#include <cstring>

#include "ferrite/data/host.h"

namespace ferrite::data {

Collation::Collation(std::int64_t samples, std::function<void(const Shape&)> differs)
    : samples_(samples), differs_(std::move(differs)) {
  FERRITE_CHECK(samples > 0, ValueError, "stack", "expected at least one sample");
}

void* Collation::next(const Shape& shape, DType dtype) {
  if (!out_.defined()) {
    shape_ = shape;
    Shape whole = shape;
    whole.insert(0, samples_);
    out_ = empty(whole, {.dtype = dtype, .device = kCPU});
  }
  if (shape != shape_ && differs_) differs_(shape);
  FERRITE_CHECK(shape == shape_, ShapeError, "stack",
                "expected samples of one shape, got {} and {}", shape_, shape);
  FERRITE_CHECK(dtype == out_.dtype(), DTypeError, "stack",
                "expected samples of one dtype, got {} and {}", out_.dtype(), dtype);
  FERRITE_CHECK(added_ < samples_, IndexError, "stack", "expected {} samples, got more", samples_);
  const std::size_t bytes = out_.nbytes() / static_cast<std::size_t>(samples_);
  return static_cast<char*>(out_.data_ptr()) + bytes * static_cast<std::size_t>(added_++);
}

void Collation::add(const Tensor& sample) {
  const Tensor dense = host_contiguous(sample, "stack");
  void* const to = next(dense.shape(), dense.dtype());
  if (dense.nbytes() > 0) std::memcpy(to, dense.data_ptr(), dense.nbytes());
}

}  // namespace ferrite::data
