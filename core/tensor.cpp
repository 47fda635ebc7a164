#include "core/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ferrite {

namespace {

/// Whether `strides` lay `shape` out without gaps when dimensions are visited in `order`, innermost
/// first. Dimensions of size 1 may have any stride.
bool is_dense_in_order(const Shape& shape, const Strides& strides, std::span<const int> order) {
  std::int64_t expected = 1;
  for (int d : order) {
    if (shape[d] == 0) return true;
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

bool is_row_major(const Shape& shape, const Strides& strides) {
  std::int64_t expected = 1;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] == 0) return true;
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

constexpr int kChannelsLastOrder[] = {1, 3, 2, 0};

bool is_channels_last(const Shape& shape, const Strides& strides) {
  return shape.size() == 4 && is_dense_in_order(shape, strides, kChannelsLastOrder);
}

void check_shape(const Shape& shape) {
  for (std::int64_t d : shape)
    FERRITE_CHECK(d >= 0, ShapeError, "empty", "sizes must be 0 or more, got {}", shape);
}

/// Bytes of a dense tensor; ShapeError where they cannot be counted.
std::size_t bytes_of(const Shape& shape, DType dtype) {
  check_shape(shape);
  std::int64_t bytes = 0;
  FERRITE_CHECK(
      !__builtin_mul_overflow(shape.numel(), static_cast<std::int64_t>(itemsize(dtype)), &bytes),
      ShapeError, "empty", "a {} tensor of {} has more bytes than 64 bits can count", shape, dtype);
  return static_cast<std::size_t>(bytes);
}

Tensor make(IntrusivePtr<Storage> storage, const Shape& shape, const Strides& strides,
            std::int64_t offset, DType dtype) {
  return Tensor(make_intrusive<TensorImpl>(std::move(storage), shape, strides, offset, dtype));
}

/// One past the last element that the geometry reaches, counted from its first.
std::int64_t extent(const Shape& shape, const Strides& strides) {
  std::int64_t last = 0;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    last += (shape[d] - 1) * strides[d];
  }
  return last + 1;
}

/// Calls f(pointer) on every element in row-major order.
template <class T, class F>
void for_each_element(const Tensor& t, F&& f) {
  if (t.numel() == 0) return;
  const T* base = static_cast<const T*>(t.data_ptr());
  Shape index = Shape::filled(t.dim(), 0);
  for (;;) {
    f(*base);
    int d = t.dim() - 1;
    for (; d >= 0; --d) {
      base += t.strides()[d];
      if (++index[d] < t.shape()[d]) break;
      base -= t.strides()[d] * t.shape()[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace

TensorImpl::TensorImpl(IntrusivePtr<Storage> storage, const Shape& shape, const Strides& strides,
                       std::int64_t offset, DType dtype)
    : storage(std::move(storage)),
      shape(shape),
      strides(strides),
      offset(offset),
      numel(shape.numel()),
      dtype(dtype),
      contiguous(is_row_major(shape, strides)) {}

Strides strides_of(const Shape& shape, MemoryFormat format) {
  if (format != MemoryFormat::channels_last || shape.size() != 4) {
    FERRITE_CHECK(format != MemoryFormat::channels_last, ShapeError, "memory_format",
                  "channels_last needs 4 dimensions (N, C, H, W), got {}", shape);
    return contiguous_strides(shape);
  }
  Strides strides = Shape::filled(4, 1);
  std::int64_t step = 1;
  for (int d : kChannelsLastOrder) {
    strides[d] = step;
    step *= std::max<std::int64_t>(shape[d], 1);
  }
  return strides;
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::channels_last) return is_channels_last(shape(), strides());
  return impl_->contiguous;
}

MemoryFormat Tensor::suggest_memory_format() const {
  return !impl_->contiguous && is_channels_last(shape(), strides()) ? MemoryFormat::channels_last
                                                                    : MemoryFormat::contiguous;
}

std::string Tensor::describe() const {
  if (!defined()) return "an undefined tensor";
  return fmt::format("{}{} on {}", dtype(), shape(), device());
}

Scalar Tensor::item_scalar() const {
  FERRITE_CHECK(defined() && numel() == 1, ShapeError, "item",
                "needs a tensor of exactly one element, got {}", describe());
  current_stream(device()).synchronize();
  return dispatch_all(dtype(), "item",
                      [&]<class T>() -> std::optional<Scalar> {
                        return Scalar(static_cast<Compute<T>>(*static_cast<const T*>(data_ptr())));
                      })
      .value();
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  FERRITE_CHECK(defined(), ValueError, "to_vector", "the tensor is undefined");
  current_stream(device()).synchronize();
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(numel()));
  dispatch_all(dtype(), "to_vector", [&]<class S>() {
    for_each_element<S>(*this,
                        [&](S v) { values.push_back(static_cast<T>(static_cast<Compute<S>>(v))); });
  });
  return values;
}

template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;
template std::vector<bool> Tensor::to_vector() const;

Tensor empty(const Shape& shape, const TensorOptions& options) {
  const MemoryFormat format = options.memory_format == MemoryFormat::preserve
                                  ? MemoryFormat::contiguous
                                  : options.memory_format;
  auto storage = Storage::allocate(bytes_of(shape, options.dtype), options.device);
  return make(std::move(storage), shape, strides_of(shape, format), 0, options.dtype);
}

Tensor empty_strided(const Shape& shape, const Strides& strides, const TensorOptions& options) {
  check_shape(shape);
  FERRITE_CHECK(shape.size() == strides.size(), ShapeError, "empty_strided",
                "{} has {} sizes, {} has {} strides", shape, shape.size(), strides, strides.size());
  for (std::int64_t s : strides)
    FERRITE_CHECK(s >= 0, ValueError, "empty_strided", "strides must be 0 or more, got {}",
                  strides);
  const Shape flat{extent(shape, strides)};
  return make(Storage::allocate(bytes_of(flat, options.dtype), options.device), shape, strides, 0,
              options.dtype);
}

Tensor empty_like(const Tensor& like, MemoryFormat format) {
  if (format == MemoryFormat::preserve) format = like.suggest_memory_format();
  return empty(like.shape(),
               {.dtype = like.dtype(), .device = like.device(), .memory_format = format});
}

Tensor from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> deleter) {
  auto storage = Storage::wrap(data, bytes_of(shape, dtype), Device(), std::move(deleter));
  return make(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape) {
  Tensor t = empty(shape, {.dtype = dtype_of<T>});
  FERRITE_CHECK(static_cast<std::size_t>(t.numel()) == values.size(), ShapeError, "from_vector",
                "{} values do not fill shape {}", values.size(), shape);
  std::copy(values.begin(), values.end(), t.data<T>());
  return t;
}

template Tensor from_vector(const std::vector<float>&, const Shape&);
template Tensor from_vector(const std::vector<double>&, const Shape&);
template Tensor from_vector(const std::vector<Half>&, const Shape&);
template Tensor from_vector(const std::vector<BFloat16>&, const Shape&);
template Tensor from_vector(const std::vector<std::int64_t>&, const Shape&);
template Tensor from_vector(const std::vector<std::int32_t>&, const Shape&);
template Tensor from_vector(const std::vector<std::uint8_t>&, const Shape&);
template Tensor from_vector(const std::vector<bool>&, const Shape&);

Tensor as_strided(const Tensor& base, const Shape& shape, const Strides& strides,
                  std::int64_t offset) {
  const auto end = static_cast<std::size_t>(offset + extent(shape, strides)) * base.itemsize();
  FERRITE_CHECK(offset >= 0 && shape.size() == strides.size() && end <= base.storage()->nbytes(),
                ShapeError, "as_strided",
                "shape {}, strides {}, offset {} reach outside a storage of {} bytes", shape,
                strides, offset, base.storage()->nbytes());
  return make(base.storage(), shape, strides, offset, base.dtype());
}

}  // namespace ferrite
