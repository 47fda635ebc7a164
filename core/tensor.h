// Tensor: a cheap handle on shaped, strided memory. Copying the handle shares the tensor.
//
// core/ defines what a tensor is. The members that record on the tape are declared here, so that
// users find everything in one place, but are defined with their functions in autograd/ and ops/.
// core/ never calls them.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/core/accessor.h"
#include "ferrite/core/device.h"
#include "ferrite/core/dtype.h"
#include "ferrite/core/intrusive_ptr.h"
#include "ferrite/core/options.h"
#include "ferrite/core/scalar.h"
#include "ferrite/core/shape.h"
#include "ferrite/core/storage.h"
#include "ferrite/core/tensor_methods.h"

namespace ferrite {

/// For `to(device, non_blocking)`.
inline constexpr bool non_blocking = true;

/// The tape's data of a tensor; defined in autograd/. core/ only stores and destroys it.
struct AutogradMeta {
  virtual ~AutogradMeta() = default;
  /// What printing `tensor`, which this belongs to, adds: "requires_grad=True", "grad_fn=<add>",
  /// "".
  virtual std::string note(const Tensor& tensor) const = 0;
};

class Tensor;
class TensorHook;
class TensorIndex;
class TensorView;

/// What a tensor's handles share.
struct TensorImpl final : RefCounted {
  TensorImpl(IntrusivePtr<Storage> storage, const Shape& shape, const Strides& strides,
             std::int64_t offset, DType dtype);

  IntrusivePtr<Storage> storage;  ///< its memory, which views share
  Shape shape;                    ///< the size of each dimension
  Strides strides;                ///< the steps between neighbours in each dimension, in elements
  /// Where the first element is in the storage, in elements.
  std::int64_t offset;  // in elements
  std::int64_t numel;
  DType dtype;  ///< the type of the elements
  /// Whether the elements lie row by row, without gaps.
  bool contiguous;  // cached
  /// Whether it was made over the storage of another tensor.
  bool is_view = false;                    // made over the storage of another tensor
  std::unique_ptr<AutogradMeta> autograd;  ///< the tape's data; null where nothing is recorded
};

/// Row-major strides, or NHWC ones for 4-dimensional `channels_last`.
Strides strides_of(const Shape& shape, MemoryFormat format);

namespace detail {
template <class T>
inline constexpr bool never = false;
struct IndexedPart;
}  // namespace detail

/// A handle on shaped, strided memory, which may be on the tape. Copying the handle shares the
/// tensor; clone() copies the values. A default-constructed one is undefined: it has no tensor.
///
///   Tensor x = randn({2, 3}, {.dtype = kFloat32, .device = "cpu"}).requires_grad_();
///   Tensor loss = (x * x).sum();
///   loss.backward();  // x.grad() is 2 x
class Tensor : public TensorMethods {
 public:
  /// An undefined tensor: it has no data, and `defined()` is false.
  Tensor() = default;
  explicit Tensor(IntrusivePtr<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  /// Makes this handle refer to the other's tensor; nothing is copied.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// Assigning to a temporary view writes into the tensor that it views, on the tape: x[i] = y,
  /// x.slice(0, 2, 5) = 1; values broadcast, and lose leading dimensions of size 1 that the part
  /// does not have, as in Python. ValueError for a temporary that is not a view. A named view is
  /// assigned like any other variable: after `Tensor row = x[0];` `row = y;` leaves x as it is.
  Tensor operator=(const Tensor& values) &&;
  Tensor operator=(Scalar value) &&;
  /// Assigning to a constant temporary, such as grad() returns, would change nothing.
  template <std::same_as<Tensor> T,
            auto = [] {}>  // the lambda: an error for each use, not for the first alone
  void operator=(const T&) const&& {
    static_assert(detail::never<T>,
                  "this assigns to a temporary, which changes nothing: write w.set_grad(t) for "
                  "w.grad() = t, and x.copy_(t) for x.data() = t");
  }

  /// Makes the handle undefined: `w.mutable_grad().reset()`.
  void reset() & { impl_ = nullptr; }

  // ---- Properties. Undefined tensors have none: all but defined() and describe() throw
  // ValueError.
  /// Whether it has a tensor.
  bool defined() const { return static_cast<bool>(impl_); }
  /// The size of each dimension.
  const Shape& shape() const { return get("shape").shape; }
  /// The size of each dimension.
  const Shape& sizes() const { return shape(); }
  /// The size of each dimension.
  const Shape& size() const { return shape(); }
  /// The steps between neighbours in each dimension, in elements.
  const Strides& strides() const { return get("strides").strides; }
  /// The number of dimensions.
  int dim() const { return get("dim").shape.size(); }
  /// The number of dimensions.
  int ndimension() const { return dim(); }
  /// Negative dimensions count from the end; IndexError if out of range.
  std::int64_t size(int dim) const { return shape()[normalize_dim(dim, this->dim(), "size")]; }
  /// The step between neighbours in a dimension, in elements. Negative dimensions count from the
  /// end.
  std::int64_t stride(int dim) const {
    return strides()[normalize_dim(dim, this->dim(), "stride")];
  }
  std::int64_t numel() const { return get("numel").numel; }
  /// The type of the elements.
  DType dtype() const { return get("dtype").dtype; }
  /// The type of the elements.
  DType scalar_type() const { return dtype(); }
  /// Whether elements are float16, bfloat16, float32 or float64.
  bool is_floating_point() const { return is_floating(dtype()); }
  bool is_complex() const { return ferrite::is_complex(dtype()); }
  /// Where the memory is.
  const Device& device() const { return get("device").storage->device(); }
  bool is_cuda() const { return device().is_cuda(); }
  /// Whether the memory is the host's, a virtual device's included.
  bool is_cpu() const { return device().is_cpu(); }
  /// Index of the device; -1 for the host.
  int get_device() const { return device().index(); }
  /// dtype and device, to make others alike: zeros({2}, x.options().dtype(kLong)).
  TensorOptionsBuilder options() const {
    return TensorOptionsBuilder().dtype(dtype()).device(device());
  }
  /// The bytes of an element.
  std::size_t itemsize() const { return ferrite::itemsize(dtype()); }
  /// The bytes of an element.
  std::int64_t element_size() const { return static_cast<std::int64_t>(itemsize()); }
  std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * itemsize(); }
  /// Where the first element is in the storage, in elements.
  std::int64_t storage_offset() const { return get("storage_offset").offset; }
  /// Whether the memory is page-locked, so that CUDA devices copy from and to it asynchronously.
  bool is_pinned() const { return get("is_pinned").storage->is_pinned(); }
  /// Whether the elements lie in the order of the memory format, without gaps.
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
  template <class T>
  T* data_ptr() const {
    return data<T>();
  }
  /// The address of the first element, without a copy. DTypeError unless T is the type of the
  /// elements. On a GPU it is an address of the device, where queued work may still be writing.
  template <class T>
  T* mutable_data_ptr() const {
    return data<T>();
  }
  /// As data(), to read only.
  template <class T>
  const T* const_data_ptr() const {
    return data<T>();
  }
  /// The elements by N indices, to be read alone if T is const. DTypeError unless T is their type,
  /// ShapeError unless there are N dimensions, DeviceError unless the host has the tensor, which
  /// must outlive the accessor.
  template <class T, std::size_t N>
  TensorAccessor<T, N> accessor() const& {
    FERRITE_CHECK(device().is_cpu(), DeviceError, "accessor",
                  "expected a tensor on the host, got {}; copy it with cpu()", describe());
    FERRITE_CHECK(dim() == static_cast<int>(N), ShapeError, "accessor",
                  "expected {} dimensions, got {}", N, describe());
    return {data<std::remove_const_t<T>>(), shape().begin(), strides().begin()};
  }
  template <class T, std::size_t N>
  TensorAccessor<T, N> accessor() && = delete;  // the tensor ends before the accessor
  /// The only element, converted to T; ShapeError unless there is exactly one. Waits for the
  /// device.
  template <class T>
  T item() const {
    return item_scalar().to<T>();
  }
  /// The only element, of any dtype: ShapeError if there are more or none. Waits for the device.
  Scalar item_scalar() const;
  /// The only element, which converts to any number: `float loss = x.item();`
  Scalar item() const { return item_scalar(); }
  /// Whether the only element is not 0, which `if (x)` asks in Python.
  bool is_nonzero() const { return item<std::complex<double>>() != 0.; }
  /// All elements in row-major order, converted to T as by Scalar::cast(), whatever the strides.
  /// Waits for the device.
  template <class T>
  std::vector<T> to_vector() const;

  /// Its memory, which views share.
  const IntrusivePtr<Storage>& storage() const { return get("storage").storage; }
  TensorImpl* impl() const { return impl_.get(); }
  /// What copies of this handle share.
  const IntrusivePtr<TensorImpl>& handle() const { return impl_; }
  /// Whether both handles are of one tensor.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  /// Whether both are over the same memory.
  bool shares_storage(const Tensor& other) const { return storage() == other.storage(); }
  /// Whether it was made under InferenceMode (autograd/grad_mode.h), or is a view of such a tensor.
  bool is_inference() const { return get("is_inference").storage->is_inference(); }
  /// Counts the changes in place. ValueError for inference tensors.
  std::uint32_t version() const;
  /// Gives this tensor the memory, geometry and dtype of `source`, which it then shares. Every
  /// handle on this tensor sees the change; its gradient, hooks and requires_grad stay as they are.
  /// For leaves: modules use it to move parameters while optimizers hold them. Tapes recorded
  /// before treat it as an in-place change.
  void set_data(const Tensor& source) const;

  /// As PyTorch prints it: values, aligned and summarised, then dtype and device if they are not
  /// the defaults.
  std::string str() const;

  // ---- Autograd (autograd/tensor_methods.cpp)
  /// Whether operations on it are recorded, and backward() gives it a gradient.
  bool requires_grad() const { return get("requires_grad").autograd && requires_grad_slow(); }
  /// Leaves only, floating-point and complex types only (AutogradError). Returns *this.
  const Tensor& set_requires_grad(bool on = true) const;
  /// Turns recording on or off and returns the tensor: AutogradError for integers, and for results
  /// of recorded operations.
  const Tensor& requires_grad_(bool on = true) const { return set_requires_grad(on); }
  /// Whether no recorded operation made it.
  bool is_leaf() const;
  /// The accumulated gradient itself, not a copy; undefined if there is none.
  const Tensor grad() const;  // constant, so that w.grad() = t does not compile
  /// Replaces the gradient by one of the same shape, dtype and device.
  void set_grad(const Tensor& grad) const;
  /// The gradient itself, to be assigned: w.mutable_grad() = t. Unlike set_grad() it checks
  /// nothing, and no backward() may run meanwhile.
  Tensor& mutable_grad() const;
  /// The name of the operation that made this tensor; "" for leaves.
  std::string grad_fn_name() const;
  /// Runs the tape backward from here, and adds to the grad() of each leaf that requires one.
  /// `gradient` defaults to 1 for one-element tensors; ShapeError for others without it. The
  /// graph is released unless `retain_graph` or `create_graph`, with which the pass is recorded
  /// itself.
  ///
  ///   cross_entropy(model(images), labels).backward();
  void backward(const Tensor& gradient = {}, bool retain_graph = false,
                bool create_graph = false) const;
  /// The same values and memory, off the tape.
  Tensor detach() const;
  const Tensor data() const { return detach(); }
  /// Takes this tensor itself off the tape, as a leaf. AutogradError for a view.
  const Tensor& detach_() const;
  /// Makes backward() keep the gradient of a tensor that is not a leaf.
  void retain_grad() const;
  /// Calls `hook` with the tensor's gradient when it is final, once per backward. A defined result
  /// replaces the gradient; it must have the same shape (ShapeError), dtype (DTypeError) and device
  /// (DeviceError).
  TensorHook register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// One that only looks.
  template <std::invocable<const Tensor&> F>
  requires std::is_void_v<std::invoke_result_t<F&, const Tensor&>> TensorHook register_hook(F hook)
  const;
  /// Leaves only: calls `hook` with the leaf after its grad() was updated, once per backward.
  TensorHook register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const;

  // ---- Copies and conversions (ops/copy.h), differentiable
  /// On this device, in this dtype or memory format: the tensor itself if nothing changes, else a
  /// copy, on the tape. With `non_blocking`, a copy between a CUDA device and the host may still be
  /// running on return. From pinned memory, the source must not change until the device's stream
  /// has passed the copy; to the host, the result is in pinned memory and may be read after
  /// synchronize().
  Tensor to(const Device& device, bool non_blocking = false) const;
  Tensor to(DType dtype, bool non_blocking = false) const;
  Tensor to(MemoryFormat format) const;
  Tensor to(const Device& device, DType dtype, bool non_blocking = false) const;
  /// To the device of the options, to their dtype if they name one, and to their memory format
  /// unless it is kContiguous, the default. ValueError for pinned memory and requires_grad: call
  /// pin_memory() or requires_grad_() on the result.
  Tensor to(const TensorOptions& options, bool non_blocking = false) const;
  /// What is not given stays as it is: x.to(device("cuda")), x.to(dtype(kLong)),
  /// x.to(memory_format(kChannelsLast)).
  Tensor to(const TensorOptionsBuilder& options, bool non_blocking = false) const;
  /// To the dtype and device of `other`.
  Tensor to(const Tensor& other, bool non_blocking = false) const {
    return to(other.device(), other.dtype(), non_blocking);
  }
  /// In the dtype and on the device of another tensor: the tensor itself if nothing changes, else a
  /// copy, on the tape.
  Tensor type_as(const Tensor& other) const { return to(other); }
  /// In this dtype: the tensor itself if nothing changes, else a copy, on the tape.
  Tensor toType(DType dtype) const { return to(dtype); }
  /// On the host; waits for the device.
  Tensor cpu() const { return to(Device()); }
  /// On this CUDA device, the current one by default.
  Tensor cuda(int index = -1) const { return to(Device(DeviceType::cuda, index)); }
  /// As float16.
  Tensor half() const { return to(kFloat16); }
  /// As bfloat16.
  Tensor bfloat16() const { return to(kBFloat16); }
  /// As uint8.
  Tensor byte() const { return to(kUInt8); }
  // The other names are keywords of C++.
  /// As float32.
  Tensor float_() const { return to(kFloat32); }
  /// As float64.
  Tensor double_() const { return to(kFloat64); }
  /// As int32.
  Tensor int_() const { return to(kInt32); }
  /// As int64.
  Tensor long_() const { return to(kInt64); }
  /// As int16.
  Tensor short_() const { return to(kInt16); }
  /// As int8.
  Tensor char_() const { return to(kInt8); }
  /// As bool: false where an element is zero.
  Tensor bool_() const { return to(kBool); }
  /// A copy in page-locked memory; the tensor itself if it is already there. DeviceError if it is
  /// not on the host, or there is no CUDA device.
  Tensor pin_memory() const;
  /// The tensor itself if its elements lie in this order without gaps, else a copy in this order,
  /// on the tape. ValueError for MemoryFormat::preserve; ShapeError for channels_last unless
  /// there are 4 dimensions.
  Tensor contiguous(MemoryFormat format = kContiguous) const;
  /// A copy with memory of its own, on the tape: shape, dtype and device stay. With `preserve` it
  /// is channels_last if this tensor's suggest_memory_format() is, else contiguous. ShapeError for
  /// channels_last unless there are 4 dimensions.
  Tensor clone(MemoryFormat format = MemoryFormat::preserve) const;
  /// Writes the values of `source` into this tensor, whose shape, dtype and device stay, and
  /// returns it. They are converted from any dtype, copied from any device, and broadcast
  /// (ShapeError). The two may share memory. On the tape the gradient goes to `source`. ValueError
  /// if elements of this tensor share memory, as after expand(); AutogradError while recording for
  /// a leaf that requires a gradient, or a view of one. `non_blocking` as of to().
  ///
  ///   x[0].copy_(tensor({1, 2, 3}));                  // a row of x, whatever its dtype
  ///   no_grad([&] { layer.weight.copy_(weights); });  // a parameter
  const Tensor& copy_(const Tensor& source, bool non_blocking = false) const;

  // ---- New tensors with this one's dtype and device, unless the options say otherwise
  /// A tensor of this shape, whose elements are not set, with this tensor's dtype and device unless
  /// an option says otherwise.
  Tensor new_empty(const Shape& shape) const { return new_empty(shape, options()); }
  /// A tensor of this shape, filled with a value, with this tensor's dtype and device unless an
  /// option says otherwise.
  Tensor new_full(const Shape& shape, Scalar value) const { return new_empty(shape).fill_(value); }
  /// A tensor of zeros of this shape, with this tensor's dtype and device unless an option says
  /// otherwise.
  Tensor new_zeros(const Shape& shape) const { return new_full(shape, 0); }
  /// A tensor of ones of this shape, with this tensor's dtype and device unless an option says
  /// otherwise.
  Tensor new_ones(const Shape& shape) const { return new_full(shape, 1); }
  template <Option T>
  Tensor new_empty(const Shape& shape, const T& option) const;
  template <Option T>
  Tensor new_full(const Shape& shape, Scalar value, const T& option) const {
    TensorOptions all = options_of(option, options());
    const bool requires_grad = std::exchange(all.requires_grad, false);
    const Tensor made = new_empty(shape, TensorOptionsBuilder(all)).fill_(value);
    return requires_grad ? made.requires_grad_() : made;
  }
  template <Option T>
  Tensor new_zeros(const Shape& shape, const T& option) const {
    return new_full(shape, 0, option);
  }
  template <Option T>
  Tensor new_ones(const Shape& shape, const T& option) const {
    return new_full(shape, 1, option);
  }

  // ---- Views (ops/views.h), differentiable, sharing memory. Sizes and dimensions need no braces:
  // x.view(-1, 3).
  /// The same elements in another shape, without a copy; one size may be -1, for what the others
  /// leave. ShapeError if the numbers of elements differ, or the strides do not allow a view, as
  /// after most calls of transpose() and permute().
  ///
  ///   zeros({2, 3, 4}).view(2, -1);  // [2, 12]
  Tensor view(const Shape& shape) const;
  template <Size... Sizes>
  Tensor view(Sizes... sizes) const {
    return view(shape_of(sizes...));
  }
  /// The same bytes as elements of `dtype`, off the tape. If its elements have another size, the
  /// last dimension's size changes by that factor, and its stride must be 1 (ShapeError, also for a
  /// size, other strides or an offset that are no whole numbers of the new elements). Bytes that
  /// become bool must be 0 or 1.
  ///
  ///   ones({2, 3}).view(kInt32);  // the bits of 1: 0x3f800000
  Tensor view(DType dtype) const;
  /// The same elements, in row-major order, in another shape: a view if the strides allow it, else
  /// a copy. One size may be -1. ShapeError if the numbers of elements differ.
  Tensor reshape(const Shape& shape) const;
  template <Size... Sizes>
  Tensor reshape(Sizes... sizes) const {
    return reshape(shape_of(sizes...));
  }
  /// The dimensions from start_dim to end_dim, both included, as one: a view if the strides allow
  /// it, else a copy. A tensor without dimensions becomes [1]. IndexError for dimensions out of
  /// range; ValueError if start_dim comes after end_dim.
  ///
  ///   zeros({8, 3, 4, 5}).flatten(1);  // [8, 60]
  Tensor flatten(int start_dim = 0, int end_dim = -1) const;
  /// A view with two dimensions swapped; negative ones count from the end (IndexError).
  ///
  ///   zeros({2, 3, 4}).transpose(0, -1);  // [4, 3, 2]
  Tensor transpose(int dim0, int dim1) const;
  /// A view of a matrix [m, n] as [n, m]; one of fewer dimensions keeps its shape. ShapeError for
  /// more than 2.
  Tensor t() const;
  /// A view with the last two dimensions swapped, [..., m, n] as [..., n, m]. IndexError for
  /// fewer than 2 dimensions.
  Tensor mT() const { return transpose(-2, -1); }
  /// A view in which dimension i is dimension dims[i] of this tensor; negative ones count from the
  /// end. ShapeError unless `dims` has one entry for each dimension, ValueError if one appears
  /// twice, IndexError if one is out of range.
  ///
  ///   zeros({8, 32, 48, 3}).permute(0, 3, 1, 2);  // NHWC as NCHW: [8, 3, 32, 48]
  Tensor permute(const Dims& dims) const;
  template <Size... Dimensions>
  Tensor permute(Dimensions... dims) const {
    return permute(Dims(shape_of(dims...)));
  }
  /// A view in which dimensions of size 1 are repeated to the sizes of `shape`, without a copy. -1
  /// keeps a size; dimensions that the tensor lacks come first. ShapeError if another size would
  /// change. Repeated elements share memory: changing the view in place is a ValueError.
  ///
  ///   zeros({3, 1}).expand(2, -1, 4);  // [2, 3, 4]
  Tensor expand(const Shape& shape) const;
  template <Size... Sizes>
  Tensor expand(Sizes... sizes) const {
    return expand(shape_of(sizes...));
  }
  /// A view without the dimensions of size 1: [1, 3, 1] as [3].
  Tensor squeeze() const;
  /// A view without this dimension if its size is 1; otherwise the shape stays. IndexError if the
  /// dimension is out of range.
  Tensor squeeze(int dim) const;
  /// Without those of these dimensions whose size is 1: x.squeeze({0, 2}). ValueError for a
  /// dimension that is named twice.
  Tensor squeeze(const Dims& dims) const;
  /// A view with a further dimension of size 1 before dimension `dim`, or at the end for dim() and
  /// -1. IndexError unless `dim` is in [-dim() - 1, dim()]; ShapeError for more than kMaxDims
  /// dimensions.
  ///
  ///   zeros({2, 3}).unsqueeze(0);   // [1, 2, 3]
  ///   zeros({2, 3}).unsqueeze(-1);  // [2, 3, 1]
  Tensor unsqueeze(int dim) const;
  /// A view of all windows of `size` elements along a dimension, `step` apart. The dimension's size
  /// n becomes the number of windows, (n - size) / step + 1, and their elements are a new last
  /// dimension. ValueError for a size above n or below 0, or a step below 1; IndexError for a
  /// dimension out of range. Windows that overlap share memory: changing them in place is a
  /// ValueError.
  ///
  ///   arange(5).unfold(0, 3, 2);  // [[0, 1, 2], [2, 3, 4]]
  Tensor unfold(int dim, std::int64_t size, std::int64_t step) const;
  /// ferrite::as_strided() of this tensor.
  Tensor as_strided(const Shape& shape, const Strides& strides,
                    std::optional<std::int64_t> storage_offset = {}) const;

  /// A view of the part at one index of a dimension, without the dimension. Negative indices count
  /// from the end; IndexError if the index or the dimension is out of range.
  ///
  ///   zeros({2, 3, 4}).select(1, -1);  // [2, 4]
  Tensor select(int dim, std::int64_t index) const;
  /// A view of the part at this index of the first dimension: select(0, index).
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  /// A new first dimension, of size 1 for true and 0 for false.
  template <std::same_as<bool> T>
  TensorView operator[](T on) const;
  /// A view of the indices start, start + step, ... below `end` of a dimension. Bounds follow
  /// Python: negative ones count from the end, then both are clamped to [0, size], and an `end`
  /// before `start` gives size 0. ValueError for a step below 1; IndexError for a dimension out of
  /// range.
  ///
  ///   arange(6).slice(0, 1, -1);     // 1, 2, 3, 4
  ///   arange(6).slice(0, 1, 99, 2);  // 1, 3, 5
  Tensor slice(int dim, std::int64_t start, std::int64_t end = INT64_MAX,
               std::int64_t step = 1) const;
  /// A view of `length` indices of a dimension from `start` on; a negative start counts from the
  /// end. Unlike slice() it clamps nothing: IndexError if they leave the dimension.
  ///
  ///   arange(6).narrow(0, -2, 2);  // 4, 5
  Tensor narrow(int dim, std::int64_t start, std::int64_t length) const;

  // ---- Indexing, differentiable
  /// Python's x[...], with one index for each dimension, the rest being taken whole: numbers, which
  /// remove their dimension, Slice, None, "...", masks and index tensors (core/tensor_index.h). It
  /// is a view, unless there are tensors among the indices, and then a copy. A mask of k dimensions
  /// stands for k dimensions, which become one, of as many elements as are true; masks wait for the
  /// device. Several index tensors broadcast to each other; their shape takes the place of their
  /// dimensions, or comes first if these are not adjacent.
  ///
  /// Negative positions count from the end. IndexError for positions out of range (those in index
  /// tensors are checked by the kernel, as in ops/index.h), for too many indices and for a mask of
  /// another shape; DTypeError for tensors other than bool, int64 and int32.
  ///
  ///   Tensor x = randn({4, 5, 6});
  ///   Tensor part = x.index({0, Slice(1, 3)});  // x[0, 1:3]: [2, 6], a view
  ///   Tensor positive = x.index({x > 0});       // x[x > 0]: [count], a copy
  ///   x.index({x < 0}) = 0;                     // x[x < 0] = 0
  TensorView index(std::initializer_list<TensorIndex> indices) const;
  TensorView index(std::span<const TensorIndex> indices) const;
  /// index() with a single index: x[mask], x[positions], x[Slice(1, 3)].
  TensorView operator[](const TensorIndex& index) const;
  /// Python's x[...] = values: writes `values`, which broadcast to the shape of index(indices)
  /// (ShapeError), there, in place, and returns this tensor; `accumulate` adds them. Where a
  /// position occurs twice, the last value stays, or both are added, in order. DTypeError unless
  /// the dtypes agree or `values` has no dimensions. Other errors as for index().
  const Tensor& index_put_(std::initializer_list<TensorIndex> indices, const Tensor& values,
                           bool accumulate = false) const;
  const Tensor& index_put_(std::span<const TensorIndex> indices, const Tensor& values,
                           bool accumulate = false) const;
  const Tensor& index_put_(std::initializer_list<TensorIndex> indices, Scalar value) const;
  /// With a single mask it does not wait for the device.
  const Tensor& index_put_(std::span<const TensorIndex> indices, Scalar value) const;
  /// A copy with `values` at indices, as index_put_() writes them.
  Tensor index_put(std::initializer_list<TensorIndex> indices, const Tensor& values,
                   bool accumulate = false) const;
  /// The elements at `index` along `dim`, in the shape of the index: for dim 1,
  /// out[i][j] = x[i][index[i][j]]; see ferrite::gather().
  Tensor gather(int dim, const Tensor& index) const;
  /// A copy of the slices along `dim` at the 1-dimensional `index`, in its order: this shape with
  /// index.numel() in place of the size of `dim`; see ferrite::index_select().
  Tensor index_select(int dim, const Tensor& index) const;
  /// A copy with `value` where the bool mask, which is broadcast, is true; see
  /// ferrite::masked_fill().
  Tensor masked_fill(const Tensor& mask, Scalar value) const;

  // ---- In place; more in core/in_place_methods.h
  /// Adds `alpha` times the operand in place, elementwise; the operand is broadcast to this shape
  /// (ShapeError). DTypeError if the dtype cannot hold the result; AutogradError and ValueError as
  /// of all methods in place (core/in_place_methods.h).
  const Tensor& add_(const Tensor& other, Scalar alpha = 1) const;
  /// Subtracts `alpha` times the operand in place; errors as of add_(), and DTypeError for bool.
  const Tensor& sub_(const Tensor& other, Scalar alpha = 1) const;
  /// Multiplies in place, elementwise; errors as of add_().
  const Tensor& mul_(const Tensor& other) const;
  /// Divides in place, elementwise; errors as of add_(). Quotients are floating: integers are a
  /// DTypeError.
  const Tensor& div_(const Tensor& other) const;
  const Tensor& add_(Scalar other) const;
  const Tensor& sub_(Scalar other) const;
  const Tensor& mul_(Scalar other) const;
  const Tensor& div_(Scalar other) const;
  /// Sets every element, to the value in this dtype.
  const Tensor& fill_(Scalar value) const;
  /// The same with the value of a tensor without dimensions (ShapeError).
  const Tensor& fill_(const Tensor& value) const;
  /// Sets every element to 0.
  const Tensor& zero_() const;
  /// Limits every element to this range, in place. One bound may be missing (ValueError for both);
  /// DTypeError if the dtype cannot hold the bounds. NaN stays.
  const Tensor& clamp_(std::optional<Scalar> min, std::optional<Scalar> max = {}) const;
  /// Writes `value` in place where the mask, bool (DTypeError) and broadcast to this shape
  /// (ShapeError), is true.
  const Tensor& masked_fill_(const Tensor& mask, Scalar value) const;
  /// Draws each element from a normal distribution, from the generator of the device. DTypeError
  /// unless floating, ValueError for an std below 0.
  const Tensor& normal_(double mean = 0, double std = 1) const;
  /// Draws each element uniformly from [low, high), from the generator of the device. DTypeError
  /// unless floating, ValueError unless low <= high.
  const Tensor& uniform_(double low = 0, double high = 1) const;
  /// Makes each element 1 with the probability p, else 0, from the generator of the device.
  /// ValueError unless p is in [0, 1].
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

/// What index() gives: a tensor like others, but assigning to it while it is a temporary writes
/// where it was taken from, even if tensors were among the indices, so that it is a copy.
class TensorView final : public Tensor {
 public:
  TensorView(Tensor part, std::shared_ptr<const detail::IndexedPart> from)
      : Tensor(std::move(part)), from_(std::move(from)) {}
  TensorView(const TensorView&) = default;
  TensorView(TensorView&&) noexcept = default;
  ~TensorView() = default;
  TensorView& operator=(const TensorView&) & = default;
  TensorView& operator=(TensorView&&) & noexcept = default;
  TensorView& operator=(const Tensor& other) & { return *this = TensorView(other, nullptr); }

  Tensor operator=(const Tensor& values) &&;
  Tensor operator=(const TensorView& values) && {
    return std::move(*this) = static_cast<const Tensor&>(values);
  }
  Tensor operator=(Scalar value) &&;
  /// Whether an index made a copy, as masks and index tensors do.
  bool is_copy() const { return from_ != nullptr; }

 private:
  std::shared_ptr<const detail::IndexedPart> from_;  // null for a view
};

inline const Tensor& InPlaceMethods::self() const { return static_cast<const Tensor&>(*this); }
template <std::same_as<DType> D>
Tensor TensorMethods::sum(D dtype) const {
  return sum(Dims(), false, dtype);
}
template <std::same_as<DType> D>
Tensor TensorMethods::mean(D dtype) const {
  return mean(Dims(), false, dtype);
}
template <std::same_as<bool> B>
Tensor TensorMethods::var(B unbiased) const {
  return var(Dims(), unbiased ? 1 : 0);
}
template <std::same_as<bool> B>
Tensor TensorMethods::std(B unbiased) const {
  return std(Dims(), unbiased ? 1 : 0);
}
template <Size... Dimensions>
Tensor TensorMethods::flip(Dimensions... dims) const {
  return flip(Dims(shape_of(dims...)));
}
template <Size... Repeats>
Tensor TensorMethods::repeat(Repeats... repeats) const {
  return repeat(shape_of(repeats...));
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// ---- Factories. More in ops/creation.h (zeros, ones, arange, randn...).

/// A tensor of this shape whose elements are not set.
Tensor empty(const Shape& shape, const TensorOptions& options = {});
template <Option T>
Tensor empty(const Shape& shape, const T& option) {
  return empty(shape, options_of(option));
}
template <Size... Sizes>
Tensor empty(Sizes... sizes) {
  return empty(shape_of(sizes...));
}
template <Size N, Option T>
Tensor empty(N size, const T& option) {
  return empty(shape_of(size), options_of(option));
}
/// A tensor of this shape, whose elements are not set, with this tensor's dtype and device unless
/// an option says otherwise.
template <Option T>
Tensor Tensor::new_empty(const Shape& shape, const T& option) const {
  return empty(shape, options_of(option, options()));
}
/// A tensor whose elements are not set.
Tensor empty_strided(const Shape& shape, const Strides& strides, const TensorOptions& options = {});
namespace detail {
/// Dtype, device and memory format of `like`.
inline TensorOptions options_like(const Tensor& like) {
  return {.dtype = like.dtype(),
          .device = like.device(),
          .memory_format = like.suggest_memory_format()};
}
}  // namespace detail

/// Shape, dtype and device of `like`; also its memory format if it is dense.
Tensor empty_like(const Tensor& like, MemoryFormat format = MemoryFormat::preserve);
/// With the shape of `like`, and its dtype, device and memory format where the option gives no
/// other.
template <Option T>
Tensor empty_like(const Tensor& like, const T& option) {
  return empty(like.shape(), options_of(option, detail::options_like(like)));
}
/// Wraps `data` without copying; `deleter` runs when the last tensor releases it. ValueError for a
/// null pointer if there are elements.
Tensor from_blob(void* data, const Shape& shape, DType dtype = get_default_dtype(),
                 std::function<void()> deleter = {});
/// The same for memory of `device`; see Storage::wrap for when `deleter` runs.
Tensor from_blob(void* data, const Shape& shape, DType dtype, const Device& device,
                 std::function<void()> deleter = {});
/// With strides, in elements and 0 or more (ValueError): from_blob(columns, {2, 3}, {1, 2}).
Tensor from_blob(void* data, const Shape& shape, const Strides& strides,
                 DType dtype = get_default_dtype(), const Device& device = {},
                 std::function<void()> deleter = {});

/// Their dtype and device are those of the options: from_blob(data, {2, 3}, dtype(kFloat64)), on
/// the host if they name no device. TensorOptions{...} always has one, the thread's default device
/// if .device is left out: name it there if set_default_device() may have been called.
template <class T>
requires std::same_as<T, TensorOptions> || std::same_as<T, TensorOptionsBuilder> Tensor
from_blob(void* data, const Shape& shape, const Strides& strides, const T& options,
          std::function<void()> deleter = {}) {
  TensorOptions all{.device = Device()};
  if constexpr (std::same_as<T, TensorOptions>)
    all = options;
  else
    all = options.over(all);
  Tensor made = from_blob(data, shape, strides, all.dtype, all.device, std::move(deleter));
  if (all.requires_grad) made.set_requires_grad();
  return made;
}
template <class T>
requires std::same_as<T, TensorOptions> || std::same_as<T, TensorOptionsBuilder> Tensor
from_blob(void* data, const Shape& shape, const T& options, std::function<void()> deleter = {}) {
  return from_blob(data, shape, contiguous_strides(shape), options, std::move(deleter));
}
/// As in libtorch, with a deleter of the pointer before the options.
template <std::invocable<void*> Deleter, class T>
Tensor from_blob(void* data, const Shape& shape, Deleter deleter, const T& options) {
  return from_blob(data, shape, options, [=]() mutable { deleter(data); });
}
template <std::invocable<void*> Deleter>
Tensor from_blob(void* data, const Shape& shape, Deleter deleter) {
  return from_blob(data, shape, deleter, get_default_dtype());
}
/// Copies `values` (row-major) into a new tensor on the host; ShapeError unless the counts agree.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape);

/// A view of the same storage with other sizes and strides, from element `storage_offset` of the
/// storage on (default: that of `base`). ShapeError if a size, a stride or the offset is negative,
/// or an element would be outside the storage. Where elements of the view share memory, the
/// gradient of `base` adds up theirs; what is outside of `base` gets none.
///
///   as_strided(arange(5), {3, 3}, {1, 1});  // [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
Tensor as_strided(const Tensor& base, const Shape& shape, const Strides& strides,
                  std::optional<std::int64_t> storage_offset = {});
/// The same bytes as elements of `dtype`, in which strides and offset count, off the tape.
Tensor as_strided(const Tensor& base, const Shape& shape, const Strides& strides,
                  std::int64_t offset, DType dtype);

}  // namespace ferrite

template <>
struct fmt::formatter<ferrite::Tensor> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  fmt::format_context::iterator format(const ferrite::Tensor& tensor,
                                       fmt::format_context& context) const;
};
template <>
struct fmt::formatter<ferrite::TensorView> : fmt::formatter<ferrite::Tensor> {};

#include "ferrite/core/tensor_index.h"  // what index() takes
