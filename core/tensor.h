// Tensor: a cheap handle on shaped, strided memory. Copying the handle shares the tensor.
//
// core/ defines what a tensor is. The members that record on the tape are declared here, so that
// users find everything in one place, but are defined with their functions in autograd/ and ops/.
// core/ never calls them.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/core/dtype.h"
#include "ferrite/core/intrusive_ptr.h"
#include "ferrite/core/scalar.h"
#include "ferrite/core/shape.h"
#include "ferrite/core/storage.h"

namespace ferrite {

/// The order of a 4-dimensional tensor's elements in memory: NCHW or NHWC. `preserve` keeps that of
/// the input.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last, preserve };
inline constexpr MemoryFormat kContiguous = MemoryFormat::contiguous;
inline constexpr MemoryFormat kChannelsLast = MemoryFormat::channels_last;

/// For `to(device, non_blocking)`.
inline constexpr bool non_blocking = true;

struct TensorOptions {
  DType dtype = kFloat32;
  Device device = {};
  MemoryFormat memory_format = kContiguous;
  bool pinned = false;  ///< page-locked memory, host only
};

/// The tape's data of a tensor; defined in autograd/. core/ only stores and destroys it.
struct AutogradMeta {
  virtual ~AutogradMeta() = default;
};

struct TensorImpl final : RefCounted {
  TensorImpl(IntrusivePtr<Storage> storage, const Shape& shape, const Strides& strides,
             std::int64_t offset, DType dtype);

  IntrusivePtr<Storage> storage;
  Shape shape;
  Strides strides;
  std::int64_t offset;  // in elements
  std::int64_t numel;
  DType dtype;
  bool contiguous;  // row-major, cached
  std::unique_ptr<AutogradMeta> autograd;
};

class Tensor;
class TensorHook;

/// Row-major strides, or NHWC ones for 4-dimensional `channels_last`.
Strides strides_of(const Shape& shape, MemoryFormat format);

class Tensor {
 public:
  /// An undefined tensor: it has no data, and `defined()` is false.
  Tensor() = default;
  explicit Tensor(IntrusivePtr<TensorImpl> impl) : impl_(std::move(impl)) {}

  // ---- Properties. Undefined tensors have none: all but defined() and describe() throw
  // ValueError.
  bool defined() const { return static_cast<bool>(impl_); }
  const Shape& shape() const { return get("shape").shape; }
  const Strides& strides() const { return get("strides").strides; }
  int dim() const { return get("dim").shape.size(); }
  /// Negative dimensions count from the end; IndexError if out of range.
  std::int64_t size(int dim) const { return shape()[normalize_dim(dim, this->dim(), "size")]; }
  std::int64_t stride(int dim) const {
    return strides()[normalize_dim(dim, this->dim(), "stride")];
  }
  std::int64_t numel() const { return get("numel").numel; }
  DType dtype() const { return get("dtype").dtype; }
  const Device& device() const { return get("device").storage->device(); }
  std::size_t itemsize() const { return ferrite::itemsize(dtype()); }
  std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * itemsize(); }
  std::int64_t storage_offset() const { return get("storage_offset").offset; }
  /// Whether the memory is page-locked, so that CUDA devices copy from and to it asynchronously.
  bool is_pinned() const { return get("is_pinned").storage->is_pinned(); }
  bool is_contiguous(MemoryFormat format = kContiguous) const;
  /// channels_last if the strides are dense and in that order, else contiguous.
  MemoryFormat suggest_memory_format() const;
  /// "float32[2, 3] on cpu", for messages.
  std::string describe() const;

  // ---- Memory. Work queued on the tensor's device may still be writing it: call synchronize()
  // first, as item(), to_vector() and printing do.
  /// Null if the storage holds no bytes.
  void* data_ptr() const {
    const TensorImpl& impl = get("data_ptr");
    char* base = static_cast<char*>(impl.storage->data());
    return base ? base + impl.offset * static_cast<std::int64_t>(itemsize()) : nullptr;
  }
  /// Throws DTypeError unless T is the element type.
  template <class T>
  T* data() const {
    FERRITE_CHECK(dtype() == dtype_of<T>, DTypeError, "data", "tensor holds {}, asked for {}",
                  dtype(), dtype_of<T>);
    return static_cast<T*>(data_ptr());
  }
  /// The only element, converted to T; ShapeError unless there is exactly one. Waits for the
  /// device.
  template <class T>
  T item() const {
    return item_scalar().to<T>();
  }
  Scalar item_scalar() const;
  /// All elements in row-major order, converted to T, whatever the strides. Waits for the device.
  template <class T>
  std::vector<T> to_vector() const;

  const IntrusivePtr<Storage>& storage() const { return get("storage").storage; }
  TensorImpl* impl() const { return impl_.get(); }
  const IntrusivePtr<TensorImpl>& handle() const { return impl_; }
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  bool shares_storage(const Tensor& other) const { return storage() == other.storage(); }
  std::uint32_t version() const { return get("version").storage->version(); }
  /// Gives this tensor the memory, geometry and dtype of `source`, which it then shares. Every
  /// handle on this tensor sees the change; its gradient, hooks and requires_grad stay as they are.
  /// For leaves: modules use it to move parameters while optimizers hold them. Tapes recorded
  /// before treat it as an in-place change.
  void set_data(const Tensor& source) const;

  /// As PyTorch prints it: values, aligned and summarised, then dtype and device if they are not
  /// the defaults.
  std::string str() const;

  // ---- Autograd (autograd/tensor_methods.cpp)
  bool requires_grad() const { return get("requires_grad").autograd && requires_grad_slow(); }
  /// Leaves only, floating types only (AutogradError). Returns *this.
  const Tensor& set_requires_grad(bool on = true) const;
  bool is_leaf() const;
  /// The accumulated gradient itself, not a copy; undefined if there is none.
  Tensor grad() const;
  void set_grad(const Tensor& grad) const;
  /// The name of the operation that made this tensor; "" for leaves.
  std::string grad_fn_name() const;
  /// Runs the tape backward from here; `gradient` defaults to 1 for one-element tensors.
  void backward(const Tensor& gradient = {}, bool retain_graph = false,
                bool create_graph = false) const;
  /// The same values and memory, off the tape.
  Tensor detach() const;
  /// Makes backward() keep the gradient of a tensor that is not a leaf.
  void retain_grad() const;
  /// Calls `hook` with the tensor's gradient when it is final, once per backward. A defined result
  /// replaces the gradient; it must have the same shape (ShapeError), dtype (DTypeError) and device
  /// (DeviceError).
  TensorHook register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// Leaves only: calls `hook` with the leaf after its grad() was updated, once per backward.
  TensorHook register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const;

  // ---- Copies and conversions (ops/copy.h), differentiable
  /// With `non_blocking`, a copy between a CUDA device and the host may still be running on return.
  /// From pinned memory, the source must not change until the device's stream has passed the copy;
  /// to the host, the result is in pinned memory and may be read after synchronize().
  Tensor to(const Device& device, bool non_blocking = false) const;
  Tensor to(DType dtype) const;
  Tensor to(MemoryFormat format) const;
  Tensor to(const Device& device, DType dtype, bool non_blocking = false) const;
  Tensor cpu() const { return to(Device()); }
  Tensor cuda() const { return to(Device(DeviceType::cuda)); }
  /// A copy in page-locked memory; the tensor itself if it is already there. DeviceError if it is
  /// not on the host, or there is no CUDA device.
  Tensor pin_memory() const;
  Tensor contiguous(MemoryFormat format = kContiguous) const;
  Tensor clone(MemoryFormat format = MemoryFormat::preserve) const;
  const Tensor& copy_(const Tensor& source, bool non_blocking = false) const;

  // ---- Views (ops/views.h), differentiable, sharing memory
  /// One size may be -1. Throws ShapeError if the strides do not allow a view.
  Tensor view(const Shape& shape) const;
  /// A view if possible, else a copy.
  Tensor reshape(const Shape& shape) const;
  Tensor flatten(int start_dim = 0, int end_dim = -1) const;
  Tensor transpose(int dim0, int dim1) const;
  Tensor t() const;
  Tensor permute(const Dims& dims) const;
  Tensor select(int dim, std::int64_t index) const;
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  Tensor slice(int dim, std::int64_t start, std::int64_t end = INT64_MAX,
               std::int64_t step = 1) const;
  Tensor narrow(int dim, std::int64_t start, std::int64_t length) const;
  Tensor expand(const Shape& shape) const;
  Tensor squeeze() const;
  Tensor squeeze(int dim) const;
  Tensor unsqueeze(int dim) const;
  Tensor unfold(int dim, std::int64_t size, std::int64_t step) const;

  // ---- Arithmetic as methods; the functions are in ops/*.h
  Tensor add(const Tensor& other, Scalar alpha = 1) const;
  Tensor sub(const Tensor& other, Scalar alpha = 1) const;
  Tensor mul(const Tensor& other) const;
  Tensor div(const Tensor& other) const;
  Tensor matmul(const Tensor& other) const;
  Tensor mm(const Tensor& other) const;
  Tensor neg() const;
  Tensor abs() const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor pow(Scalar exponent) const;
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor relu() const;
  Tensor clamp(std::optional<Scalar> min, std::optional<Scalar> max = {}) const;
  Tensor sum() const;
  Tensor sum(const Dims& dims, bool keepdim = false) const;
  Tensor mean() const;
  Tensor mean(const Dims& dims, bool keepdim = false) const;
  Tensor max() const;
  Tensor min() const;
  Tensor argmax(std::optional<int> dim = {}, bool keepdim = false) const;
  Tensor argmin(std::optional<int> dim = {}, bool keepdim = false) const;
  Tensor softmax(int dim) const;
  Tensor log_softmax(int dim) const;
  Tensor eq(const Tensor& other) const;
  Tensor ne(const Tensor& other) const;
  Tensor masked_fill(const Tensor& mask, Scalar value) const;
  Tensor gather(int dim, const Tensor& index) const;
  Tensor index_select(int dim, const Tensor& index) const;

  const Tensor& add_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& sub_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& div_(const Tensor& other) const;
  const Tensor& add_(Scalar other) const;
  const Tensor& sub_(Scalar other) const;
  const Tensor& mul_(Scalar other) const;
  const Tensor& div_(Scalar other) const;
  const Tensor& fill_(Scalar value) const;
  const Tensor& zero_() const;
  const Tensor& relu_() const;
  const Tensor& clamp_(std::optional<Scalar> min, std::optional<Scalar> max = {}) const;
  const Tensor& masked_fill_(const Tensor& mask, Scalar value) const;
  const Tensor& normal_(double mean = 0, double std = 1) const;
  const Tensor& uniform_(double low = 0, double high = 1) const;
  const Tensor& bernoulli_(double p = 0.5) const;

 private:
  const TensorImpl& get(const char* member) const {
    if (!impl_) [[unlikely]]
      fail_undefined(member);
    return *impl_;
  }
  [[noreturn, gnu::cold]] static void fail_undefined(const char* member);
  bool requires_grad_slow() const;

  IntrusivePtr<TensorImpl> impl_;
};

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// ---- Factories. More in ops/creation.h (zeros, ones, arange, randn...).

/// Contents undefined.
Tensor empty(const Shape& shape, const TensorOptions& options = {});
Tensor empty_strided(const Shape& shape, const Strides& strides, const TensorOptions& options = {});
/// Shape, dtype and device of `like`; also its memory format if it is dense.
Tensor empty_like(const Tensor& like, MemoryFormat format = MemoryFormat::preserve);
/// Wraps `data` without copying; `deleter` runs when the last tensor releases it. ValueError for a
/// null pointer if there are elements.
Tensor from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> deleter = {});
/// The same for memory of `device`; see Storage::wrap for when `deleter` runs.
Tensor from_blob(void* data, const Shape& shape, DType dtype, const Device& device,
                 std::function<void()> deleter = {});
/// Copies `values` (row-major) into a new tensor on the host; ShapeError unless the counts agree.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape);

/// A tensor over the same storage with other geometry, off the tape. Throws ShapeError if a size, a
/// stride or the offset is negative, or an element would be outside the storage.
Tensor as_strided(const Tensor& base, const Shape& shape, const Strides& strides,
                  std::int64_t offset);

}  // namespace ferrite
