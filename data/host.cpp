#include "ferrite/data/host.h"

#include <complex>
#include <cstring>

#include "ferrite/core/host_copy.h"
#include "ferrite/core/stream.h"

namespace ferrite::data {

namespace {

template <class T>
void gather(const T* source, const Shape& shape, const Strides& strides, int dim, T*& out) {
  if (dim == shape.size()) {
    *out++ = *source;
  } else if (dim == shape.size() - 1) {
    for (std::int64_t i = 0; i < shape[dim]; ++i) *out++ = source[i * strides[dim]];
  } else {
    for (std::int64_t i = 0; i < shape[dim]; ++i)
      gather(source + i * strides[dim], shape, strides, dim + 1, out);
  }
}

template <class T>
void gather_as(const void* source, const Strides& strides, const Tensor& out) {
  T* p = static_cast<T*>(out.data_ptr());
  gather(static_cast<const T*>(source), out.shape(), strides, 0, p);
}

}  // namespace

Tensor gather_strided(const void* source, const Shape& shape, const Strides& strides, DType dtype) {
  Tensor out = empty(shape, {.dtype = dtype, .device = kCPU});
  if (out.numel() == 0) return out;
  if (strides == out.strides()) {
    std::memcpy(out.data_ptr(), source, out.nbytes());
    return out;
  }
  switch (itemsize(dtype)) {
    case 1:
      gather_as<std::uint8_t>(source, strides, out);
      break;
    case 2:
      gather_as<std::uint16_t>(source, strides, out);
      break;
    case 4:
      gather_as<std::uint32_t>(source, strides, out);
      break;
    case 8:
      gather_as<std::uint64_t>(source, strides, out);
      break;
    default:
      gather_as<std::complex<double>>(source, strides, out);
  }
  return out;
}

Tensor host_contiguous(const Tensor& tensor, std::string_view op) {
  FERRITE_CHECK(tensor.defined(), ValueError, op, "expected a tensor, got an undefined one");
  ferrite::detail::check_may_read(tensor.device(), op);
  synchronize(tensor.device());
  const Tensor host = ferrite::detail::readable_on_host(tensor, op);
  if (host.is_contiguous()) return host;
  return gather_strided(host.data_ptr(), host.shape(), host.strides(), host.dtype());
}

Tensor pinned(const Tensor& tensor) {
  if (!tensor.defined() || (tensor.is_pinned() && tensor.is_contiguous())) return tensor;
  const Tensor source = host_contiguous(tensor, "pin_memory");
  Tensor out = empty(source.shape(), {.dtype = source.dtype(), .device = kCPU, .pinned = true});
  if (source.nbytes() > 0) std::memcpy(out.data_ptr(), source.data_ptr(), source.nbytes());
  return out;
}

}  // namespace ferrite::data
