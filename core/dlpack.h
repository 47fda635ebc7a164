// DLPack: tensors handed to and from other libraries (PyTorch, NumPy, JAX, TVM, CuPy ...) in one
// process without a copy. https://dmlc.github.io/dlpack/latest
//
//   dlpack::ManagedTensor* given = to_dlpack(tensor);        // the other library calls its deleter
//   Tensor tensor = from_dlpack(taken);                      // which runs when the last tensor is
//   gone
//
// The structs are those of dlpack/dlpack.h of the project dmlc/dlpack, to the byte: the ones of
// version 0.8, which all libraries read, and those of 1.0 with a version and flags. A pointer to
// DLManagedTensor is cast: from_dlpack(reinterpret_cast<dlpack::ManagedTensor*>(theirs)).
#pragma once

#include <cstdint>

#include "ferrite/core/tensor.h"

namespace ferrite {

namespace dlpack {

/// The kinds of devices, numbered as in DLPack.
enum class DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
/// The kinds of numbers, numbered as in DLPack.
enum class TypeCode : std::uint8_t {
  integer = 0,
  unsigned_integer = 1,
  floating = 2,
  bfloat = 4,
  complex = 5,
  boolean = 6
};

/// A device, by kind and number.
struct Device {
  DeviceType device_type;  ///< the kind of the device
  std::int32_t device_id;  ///< the number of the device
};

/// The type of the elements.
struct DataType {
  TypeCode code;        ///< the kind of numbers
  std::uint8_t bits;    ///< the number of bits of an element
  std::uint16_t lanes;  ///< elements of a vector type; 1
};

/// The memory of a tensor, which the struct does not own.
struct TensorView {
  void* data;                 ///< the memory; byte_offset leads to the first element
  Device device;              ///< the device of the memory
  std::int32_t ndim;          ///< the number of dimensions
  DataType dtype;             ///< the type of the elements
  std::int64_t* shape;        ///< the size of each dimension
  std::int64_t* strides;      ///< in elements; null: row-major
  std::uint64_t byte_offset;  ///< from `data` to the first element
};

/// DLManagedTensor, of capsules named "dltensor".
struct ManagedTensor {
  TensorView dl_tensor;                  ///< the tensor
  void* manager_ctx;                     ///< what the deleter needs; for the producer alone
  void (*deleter)(ManagedTensor* self);  ///< frees it; null if there is nothing to do
};

/// A version of DLPack.
struct Version {
  std::uint32_t major;  ///< the version before the point: other ones are incompatible
  std::uint32_t minor;  ///< the version behind the point
};

inline constexpr std::uint64_t kReadOnly = 1, kIsCopied = 2;  ///< flags

/// DLManagedTensorVersioned, of capsules named "dltensor_versioned".
struct ManagedTensorVersioned {
  Version version;    ///< the version of DLPack that the struct follows
  void* manager_ctx;  ///< what the deleter needs; for the producer alone
  void (*deleter)(ManagedTensorVersioned* self);  ///< frees it; null if there is nothing to do
  std::uint64_t flags;                            ///< kReadOnly, kIsCopied, or both
  TensorView dl_tensor;                           ///< the tensor
};

}  // namespace dlpack

/// Shares the tensor's memory; the result keeps it alive until its deleter is called, by any
/// thread. Work queued on the host's virtual devices is waited for. On a CUDA device the data is
/// ready on the current stream, as in PyTorch's C++ functions: a consumer on another stream must
/// wait for it. ValueError for undefined tensors and those that require a gradient: pass
/// tensor.detach().
dlpack::ManagedTensor* to_dlpack(const Tensor& tensor);
/// The same as version 1.0. `flags` are told to the consumer: dlpack::kReadOnly asks it not to
/// write.
dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor, std::uint64_t flags = 0);

/// The options of from_dlpack().
struct FromDlpackOptions {
  /// Whether memory that must not be written is accepted. Tensors cannot forbid it: clone() the
  /// result before you change it.
  bool allow_read_only = false;
};

/// Shares the memory: float16, bfloat16, float32, float64, signed integers of 8 to 64 bits, uint8
/// and bool, on the host (page-locked too) or a CUDA device, of any strides of 0 or more. The data
/// must be ready on the current stream. From now on the tensors own `managed`: its deleter is
/// called when the last of them is gone (see Storage::wrap). After an error it still belongs to the
/// caller. ValueError (null, version, read-only, negative sizes or strides, alignment), DTypeError,
/// DeviceError, ShapeError (more than 8 dimensions, or more bytes than can be counted).
Tensor from_dlpack(dlpack::ManagedTensor* managed);
Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed, const FromDlpackOptions& options = {});

}  // namespace ferrite
