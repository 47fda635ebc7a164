#include "ferrite/core/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ferrite/core/host_copy.h"
#include "ferrite/core/tracing.h"

namespace ferrite {

namespace {

/// Whether `strides` lay `shape` out without gaps when dimensions are visited in `order`, innermost
/// first. Dimensions of size 1 may have any stride.
bool is_dense_in_order(const Shape& shape, const Strides& strides, std::span<const int> order) {
  if (std::ranges::find(shape, 0) != shape.end()) return true;  // no elements, no gaps
  std::int64_t expected = 1;
  for (int d : order) {
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

bool is_row_major(const Shape& shape, const Strides& strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return true;  // no element, no gap
  std::int64_t expected = 1;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

constexpr int kChannelsLastOrder[] = {1, 3, 2, 0};

bool is_channels_last(const Shape& shape, const Strides& strides) {
  return shape.size() == 4 && is_dense_in_order(shape, strides, kChannelsLastOrder);
}

bool any_negative(const Shape& s) {
  return std::ranges::any_of(s, [](std::int64_t v) { return v < 0; });
}

void check_shape(const Shape& shape) {
  FERRITE_CHECK(!any_negative(shape), ShapeError, "empty", "sizes must be 0 or more, got {}",
                shape);
}

/// Bytes of a dense tensor; ShapeError on overflow.
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

void check_no_grad(const TensorOptions& options) {
  FERRITE_CHECK(!options.requires_grad, AutogradError, "empty",
                "makes tensors that require no gradient; call requires_grad_() on the result");
}

IntrusivePtr<Storage> allocate(std::size_t bytes, const TensorOptions& options) {
  if (!options.pinned) [[likely]]
    return Storage::allocate(bytes, options.device);
  FERRITE_CHECK(options.device.is_host(), ValueError, "empty",
                "only memory of the host can be pinned, not that of {}", options.device);
  return Storage::allocate_pinned(bytes);
}

/// One past the last element that the geometry reaches, in elements from the start of the storage;
/// 0 if there is no element, INT64_MAX on overflow. Sizes, strides and offset are 0 or more.
std::int64_t extent(const Shape& shape, const Strides& strides, std::int64_t offset = 0) {
  std::int64_t end = offset;
  bool overflow = __builtin_add_overflow(end, 1, &end);
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    std::int64_t reach = 0;
    overflow |= __builtin_mul_overflow(shape[d] - 1, strides[d], &reach);
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  return overflow ? INT64_MAX : end;
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
  bool overflow = false;
  for (int d : kChannelsLastOrder) {
    FERRITE_CHECK(!overflow, ShapeError, "shape", "{} has strides that 64 bits cannot hold", shape);
    strides[d] = step;
    overflow = __builtin_mul_overflow(step, std::max<std::int64_t>(shape[d], 1), &step);
  }
  return strides;
}

void Tensor::fail_undefined(const char* member) {
  fail<ValueError>(member,
                   "the tensor is undefined: it was default-constructed, or stands for "
                   "something that is not there");
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::channels_last) return is_channels_last(shape(), strides());
  return get("is_contiguous").contiguous;
}

MemoryFormat Tensor::suggest_memory_format() const {
  const TensorImpl& t = get("suggest_memory_format");
  if (!is_channels_last(t.shape, t.strides)) return MemoryFormat::contiguous;
  if (!t.contiguous) return MemoryFormat::channels_last;
  // A tensor may satisfy both formats, for example with one channel. As in PyTorch, the strides
  // then decide, although those of dimensions of size 1 are never used.
  return t.numel != 0 && t.strides != contiguous_strides(t.shape) &&
                 t.strides == strides_of(t.shape, MemoryFormat::channels_last)
             ? MemoryFormat::channels_last
             : MemoryFormat::contiguous;
}

std::string Tensor::describe() const {
  if (!defined()) return "an undefined tensor";
  return fmt::format("{}{} on {}", dtype(), shape(), device());
}

std::uint32_t Tensor::version() const {
  const Storage& memory = *get("version").storage;
  FERRITE_CHECK(!memory.is_inference(), ValueError, "version",
                "{} is an inference tensor, whose changes in place are not counted; clone() it "
                "outside InferenceMode to get one whose changes are",
                describe());
  return memory.version();
}

void Tensor::set_data(const Tensor& source) const {
  FERRITE_CHECK(defined() && source.defined(), ValueError, "set_data", "the {} is undefined",
                defined() ? "source" : "tensor");
  if (is_same(source)) return;
  const std::uint32_t before = impl_->storage->version();
  const TensorImpl& from = *source.impl_;
  impl_->storage = from.storage;
  impl_->shape = from.shape;
  impl_->strides = from.strides;
  impl_->offset = from.offset;
  impl_->numel = from.numel;
  impl_->dtype = from.dtype;
  impl_->contiguous = from.contiguous;
  impl_->storage->advance_version(before, "set_data");
}

Scalar Tensor::item_scalar() const {
  FERRITE_CHECK(defined() && numel() == 1, ShapeError, "item",
                "needs a tensor of exactly one element, got {}", describe());
  if (tracing::on()) tracing::detail::recorder->read("item", *this);
  const Tensor host = detail::readable_on_host(*this, "item");
  if (dtype() == kComplex64) return *host.data<std::complex<float>>();
  if (dtype() == kComplex128) return *host.data<std::complex<double>>();
  return dispatch_all(
             dtype(), "item",
             [&]<class T>() -> std::optional<Scalar> {
               return Scalar(static_cast<Compute<T>>(*static_cast<const T*>(host.data_ptr())));
             })
      .value();
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  FERRITE_CHECK(defined(), ValueError, "to_vector", "the tensor is undefined");
  if (tracing::on()) tracing::detail::recorder->read("to_vector", *this);
  const Tensor host = detail::readable_on_host(*this, "to_vector");
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(numel()));
  if constexpr (is_complex_type<T>) {
    using Part = typename T::value_type;
    if (dtype() == kComplex64) {
      for_each_element<std::complex<float>>(host, [&](auto v) { values.emplace_back(v); });
    } else if (dtype() == kComplex128) {
      for_each_element<std::complex<double>>(host, [&](auto v) {
        values.emplace_back(static_cast<Part>(v.real()), static_cast<Part>(v.imag()));
      });
    } else {
      for (const double v : to_vector<double>()) values.emplace_back(static_cast<Part>(v));
    }
  } else {
    dispatch_all(dtype(), "to_vector", [&]<class S>() {
      for_each_element<S>(host, [&](S v) {
        const auto number = static_cast<Compute<S>>(v);
        if constexpr (std::integral<T> && std::floating_point<Compute<S>>)
          values.push_back(Scalar(number).cast<T>());  // also outside the range of T
        else
          values.push_back(static_cast<T>(number));
      });
    });
  }
  return values;
}

template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::int16_t> Tensor::to_vector() const;
template std::vector<std::int8_t> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;
template std::vector<bool> Tensor::to_vector() const;
template std::vector<std::complex<float>> Tensor::to_vector() const;
template std::vector<std::complex<double>> Tensor::to_vector() const;

Tensor empty(const Shape& shape, const TensorOptions& options) {
  check_no_grad(options);
  const MemoryFormat format = options.memory_format == MemoryFormat::preserve
                                  ? MemoryFormat::contiguous
                                  : options.memory_format;
  return make(allocate(bytes_of(shape, options.dtype), options), shape, strides_of(shape, format),
              0, options.dtype);
}

Tensor empty_strided(const Shape& shape, const Strides& strides, const TensorOptions& options) {
  check_no_grad(options);
  check_shape(shape);
  FERRITE_CHECK(shape.size() == strides.size(), ShapeError, "empty_strided",
                "{} has {} sizes, {} has {} strides", shape, shape.size(), strides, strides.size());
  FERRITE_CHECK(!any_negative(strides), ValueError, "empty_strided",
                "strides must be 0 or more, got {}", strides);
  const Shape flat{extent(shape, strides)};
  return make(allocate(bytes_of(flat, options.dtype), options), shape, strides, 0, options.dtype);
}

Tensor empty_like(const Tensor& like, MemoryFormat format) {
  FERRITE_CHECK(like.defined(), ValueError, "empty_like", "the tensor is undefined");
  if (format == MemoryFormat::preserve) format = like.suggest_memory_format();
  return empty(like.shape(),
               {.dtype = like.dtype(), .device = like.device(), .memory_format = format});
}

Tensor from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> deleter) {
  return from_blob(data, shape, dtype, Device(), std::move(deleter));
}

Tensor from_blob(void* data, const Shape& shape, DType dtype, const Device& device,
                 std::function<void()> deleter) {
  const std::size_t bytes = bytes_of(shape, dtype);
  FERRITE_CHECK(data || bytes == 0, ValueError, "from_blob",
                "expected memory for {} of {}, {} bytes, got a null pointer", shape, dtype, bytes);
  auto storage = Storage::wrap(data, bytes, device, std::move(deleter));
  return make(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

Tensor from_blob(void* data, const Shape& shape, const Strides& strides, DType dtype,
                 const Device& device, std::function<void()> deleter) {
  check_shape(shape);
  FERRITE_CHECK(shape.size() == strides.size(), ShapeError, "from_blob",
                "{} has {} sizes, {} has {} strides", shape, shape.size(), strides, strides.size());
  FERRITE_CHECK(!any_negative(strides), ValueError, "from_blob",
                "strides must be 0 or more, got {}", strides);
  const Tensor flat = from_blob(data, {extent(shape, strides)}, dtype, device, std::move(deleter));
  return make(flat.storage(), shape, strides, 0, dtype);
}

template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape) {
  Tensor t = empty(shape, {.dtype = dtype_of<T>, .device = kCPU});
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
template Tensor from_vector(const std::vector<std::int16_t>&, const Shape&);
template Tensor from_vector(const std::vector<std::int8_t>&, const Shape&);
template Tensor from_vector(const std::vector<std::uint8_t>&, const Shape&);
template Tensor from_vector(const std::vector<bool>&, const Shape&);
template Tensor from_vector(const std::vector<std::complex<float>>&, const Shape&);
template Tensor from_vector(const std::vector<std::complex<double>>&, const Shape&);

Tensor as_strided(const Tensor& base, const Shape& shape, const Strides& strides,
                  std::int64_t offset, DType dtype) {
  FERRITE_CHECK(base.defined(), ValueError, "as_strided", "the tensor is undefined");
  FERRITE_CHECK(shape.size() == strides.size(), ShapeError, "as_strided",
                "{} has {} sizes, {} has {} strides", shape, shape.size(), strides, strides.size());
  FERRITE_CHECK(offset >= 0 && !any_negative(shape) && !any_negative(strides), ShapeError,
                "as_strided", "shape {}, strides {} and offset {} must all be 0 or more", shape,
                strides, offset);
  FERRITE_CHECK(extent(shape, strides, offset) <=
                    static_cast<std::int64_t>(base.storage()->nbytes() / itemsize(dtype)),
                ShapeError, "as_strided",
                "shape {}, strides {}, offset {} reach outside a storage of {} bytes", shape,
                strides, offset, base.storage()->nbytes());
  Tensor view = make(base.storage(), shape, strides, offset, dtype);
  view.impl()->is_view = true;
  return view;
}

}  // namespace ferrite
