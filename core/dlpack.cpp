#include "ferrite/core/dlpack.h"

#include <memory>

#include "ferrite/core/error.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/views.h"

namespace ferrite {

namespace {

constexpr const char* kFromDlpack = "from_dlpack";
constexpr const char* kToDlpack = "to_dlpack";
constexpr dlpack::Version kDlpackVersion = {1, 0};

// The layout of dlpack.h on 64-bit systems.
static_assert(sizeof(dlpack::TensorView) == 48 && offsetof(dlpack::TensorView, shape) == 24 &&
              offsetof(dlpack::TensorView, byte_offset) == 40);
static_assert(sizeof(dlpack::ManagedTensor) == 64);
static_assert(sizeof(dlpack::ManagedTensorVersioned) == 80 &&
              offsetof(dlpack::ManagedTensorVersioned, dl_tensor) == 32);

struct DlpackType {
  DType dtype;
  dlpack::TypeCode code;
  std::uint8_t bits;
};
constexpr DlpackType kDlpackTypes[] = {
    {kFloat32, dlpack::TypeCode::floating, 32},      {kFloat64, dlpack::TypeCode::floating, 64},
    {kFloat16, dlpack::TypeCode::floating, 16},      {kBFloat16, dlpack::TypeCode::bfloat, 16},
    {kInt64, dlpack::TypeCode::integer, 64},         {kInt32, dlpack::TypeCode::integer, 32},
    {kInt16, dlpack::TypeCode::integer, 16},         {kInt8, dlpack::TypeCode::integer, 8},
    {kUInt8, dlpack::TypeCode::unsigned_integer, 8}, {kBool, dlpack::TypeCode::boolean, 8},
    {kComplex64, dlpack::TypeCode::complex, 64},     {kComplex128, dlpack::TypeCode::complex, 128}};

// ---- Out

/// What the consumer frees: the struct and what it points to.
template <class Managed>
struct Exported {
  Tensor tensor;
  Shape shape;
  Strides strides;
  Managed managed = {};
};

dlpack::DataType dlpack_type(DType dtype) {
  for (const DlpackType& type : kDlpackTypes)
    if (type.dtype == dtype) return {type.code, type.bits, 1};
  fail<DTypeError>(kToDlpack, "DLPack has no {}", dtype);
}

template <class Managed>
Managed* exported(const Tensor& tensor) {
  FERRITE_CHECK(tensor.defined(), ValueError, kToDlpack, "the tensor is undefined");
  // The tape, which core/ does not know, says so when the tensor is printed.
  const AutogradMeta* const tape = tensor.impl()->autograd.get();
  FERRITE_CHECK(!tape || tape->note(tensor).empty(), ValueError, kToDlpack,
                "the tensor requires a gradient, which other libraries would not record; pass "
                "tensor.detach()");
  const ferrite::Device& device = tensor.device();
  if (device.is_cpu()) synchronize(device);
  auto out = std::make_unique<Exported<Managed>>(
      Exported<Managed>{tensor, tensor.shape(), tensor.strides()});
  out->managed.dl_tensor = {.data = tensor.data_ptr(),
                            .device = device.is_cuda()
                                          ? dlpack::Device{dlpack::DeviceType::cuda, device.index()}
                                          : dlpack::Device{dlpack::DeviceType::cpu, 0},
                            .ndim = static_cast<std::int32_t>(tensor.dim()),
                            .dtype = dlpack_type(tensor.dtype()),
                            .shape = out->shape.begin(),
                            .strides = out->strides.begin(),
                            .byte_offset = 0};
  out->managed.manager_ctx = out.get();
  out->managed.deleter = [](Managed* self) {
    delete static_cast<Exported<Managed>*>(self->manager_ctx);
  };
  return &out.release()->managed;
}

// ---- In

DType dtype_of(const dlpack::DataType& type) {
  for (const DlpackType& known : kDlpackTypes)
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1) return known.dtype;
  fail<DTypeError>(
      kFromDlpack,
      "elements of code {}, {} bits and {} lanes are not supported; expected float16, "
      "bfloat16, float32, float64, int8 to int64, uint8, bool, complex64 or complex128 of one "
      "lane",
      static_cast<int>(type.code), type.bits, type.lanes);
}

Device device_of(const dlpack::Device& device) {
  switch (device.device_type) {
    case dlpack::DeviceType::cpu:
    case dlpack::DeviceType::cuda_host:
      return {};
    case dlpack::DeviceType::cuda:
    case dlpack::DeviceType::cuda_managed:
      FERRITE_CHECK(device.device_id >= 0 && device.device_id < cuda::device_count(), DeviceError,
                    kFromDlpack, "the memory is on cuda:{}; there are {} CUDA devices",
                    device.device_id, cuda::device_count());
      return {kCUDA, device.device_id};
  }
  fail<DeviceError>(kFromDlpack,
                    "the memory is on a device of DLPack's type {}; expected 1 (CPU), 2 (CUDA), 3 "
                    "(page-locked host memory) or 13 (CUDA managed memory)",
                    static_cast<int>(device.device_type));
}

Shape sizes_of(const dlpack::TensorView& view) {
  FERRITE_CHECK(view.ndim >= 0 && view.ndim <= kMaxDims, ShapeError, kFromDlpack,
                "expected at most {} dimensions, got {}", kMaxDims, view.ndim);
  FERRITE_CHECK(view.ndim == 0 || view.shape, ValueError, kFromDlpack, "the shape is null");
  Shape shape;
  for (std::int32_t d = 0; d < view.ndim; ++d) {
    FERRITE_CHECK(view.shape[d] >= 0, ValueError, kFromDlpack,
                  "expected sizes of 0 or more, got {} in dimension {}", view.shape[d], d);
    shape.push_back(view.shape[d]);
  }
  return shape;
}

/// The given strides, or those of a row-major tensor.
Strides strides_of(const dlpack::TensorView& view, const Shape& shape) {
  Strides strides = shape;
  std::int64_t step = 1;
  for (int d = shape.size() - 1; d >= 0; --d) {
    strides[d] = view.strides ? view.strides[d] : step;
    FERRITE_CHECK(strides[d] >= 0, ValueError, kFromDlpack,
                  "expected strides of 0 or more, got {} in dimension {}; copy the array first",
                  strides[d], d);
    FERRITE_CHECK(
        view.strides || !__builtin_mul_overflow(step, std::max(shape[d], std::int64_t{1}), &step),
        ShapeError, kFromDlpack, "{} has more elements than 63 bits can count", shape);
  }
  return strides;
}

/// Elements from the first to the last; those of the storage.
std::int64_t extent_of(const Shape& shape, const Strides& strides, DType dtype) {
  std::int64_t last = 0, bytes = 0;
  bool overflow = false;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    std::int64_t step = 0;
    overflow |= __builtin_mul_overflow(shape[d] - 1, strides[d], &step);
    overflow |= __builtin_add_overflow(last, step, &last);
  }
  overflow |= __builtin_add_overflow(last, 1, &last);
  overflow |= __builtin_mul_overflow(last, static_cast<std::int64_t>(itemsize(dtype)), &bytes);
  FERRITE_CHECK(!overflow, ShapeError, kFromDlpack,
                "{} with strides {} has more bytes than 63 bits can count", shape, strides);
  return last;
}

template <class Managed>
Tensor imported(Managed* managed) {
  const dlpack::TensorView& view = managed->dl_tensor;
  const DType dtype = dtype_of(view.dtype);
  const Device device = device_of(view.device);
  const Shape shape = sizes_of(view);
  const Strides strides = strides_of(view, shape);
  const std::int64_t extent = extent_of(shape, strides, dtype);
  FERRITE_CHECK(view.data || extent == 0, ValueError, kFromDlpack,
                "expected memory for {} of {}, got a null pointer", shape, dtype);
  std::uint8_t* const data =
      view.data ? static_cast<std::uint8_t*>(view.data) + view.byte_offset : nullptr;
  FERRITE_CHECK(reinterpret_cast<std::uintptr_t>(data) % itemsize(dtype) == 0, ValueError,
                kFromDlpack,
                "expected {} at a multiple of {} bytes, got the address {}; copy the "
                "array first",
                dtype, itemsize(dtype), static_cast<const void*>(data));
  const auto release = [managed] {
    if (managed->deleter) managed->deleter(managed);
  };
  if (strides == contiguous_strides(shape) || extent == 0)
    return from_blob(data, shape, dtype, device, release);
  return geometry::as_strided(from_blob(data, {extent}, dtype, device, release), shape, strides, 0);
}

}  // namespace

dlpack::ManagedTensor* to_dlpack(const Tensor& tensor) {
  return exported<dlpack::ManagedTensor>(tensor);
}

dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor, std::uint64_t flags) {
  auto* const managed = exported<dlpack::ManagedTensorVersioned>(tensor);
  managed->version = kDlpackVersion;
  managed->flags = flags;
  return managed;
}

Tensor from_dlpack(dlpack::ManagedTensor* managed) {
  FERRITE_CHECK(managed, ValueError, kFromDlpack, "the tensor is null");
  return imported(managed);
}

Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed, const FromDlpackOptions& options) {
  FERRITE_CHECK(managed, ValueError, kFromDlpack, "the tensor is null");
  // Nothing else of another major version is where it is here.
  FERRITE_CHECK(managed->version.major == kDlpackVersion.major, ValueError, kFromDlpack,
                "expected version 1 of DLPack, got {}.{}", managed->version.major,
                managed->version.minor);
  FERRITE_CHECK(
      options.allow_read_only || !(managed->flags & dlpack::kReadOnly), ValueError, kFromDlpack,
      "the memory must not be written, which tensors cannot forbid; copy the array first, or "
      "set .allow_read_only = true and clone() the tensor before you change it");
  return imported(managed);
}

}  // namespace ferrite
