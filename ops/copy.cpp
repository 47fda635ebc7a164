#include "ferrite/ops/copy.h"

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/core/views.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/defined.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/transfer.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::recording;
using ops::check_defined;
using ops::Like;
using ops::transfer;

namespace {

MemoryFormat resolve(MemoryFormat format, const Tensor& like) {
  return format == MemoryFormat::preserve ? like.suggest_memory_format() : format;
}

Tensor converted(const Tensor& t, const Device& device, DType dtype, MemoryFormat format,
                 bool non_blocking, const char* op) {
  Tensor out =
      empty(t.shape(), {.dtype = dtype,
                        .device = device,
                        .memory_format = resolve(format, t),
                        .pinned = non_blocking && t.device().is_cuda() && device.is_host()});
  transfer(out, t, non_blocking, op);
  return out;
}

}  // namespace

// ---- to

Tensor Tensor::to(const Device& device, DType dtype, bool non_blocking) const {
  check_defined(*this, "to");
  if (device == this->device() && dtype == this->dtype()) return *this;
  if (tracing::on())
    return tracing::op("to", {*this}, {}, [&] { return to(device, dtype, non_blocking); });
  if (is_complex() && dtype == kBool) return ferrite::ne(*this, 0).to(device);
  const profiler::OpRange range("to", *this);
  Tensor out = converted(*this, device, dtype, MemoryFormat::preserve, non_blocking, "to");
  // Integers and bool carry no gradient.
  if (is_differentiable(dtype) && recording(*this))
    record(out, "to", {*this}, [like = Like(*this), non_blocking](const Tensor& grad, Needs) {
      // A copy to the host must block: nothing would wait for it before the host's ops read the
      // gradient.
      return grad.to(like.device, like.dtype, non_blocking && !like.device.is_host());
    });
  return out;
}

Tensor Tensor::to(const Device& device, bool non_blocking) const {
  check_defined(*this, "to");
  return to(device, dtype(), non_blocking);
}

Tensor Tensor::to(DType dtype, bool non_blocking) const {
  check_defined(*this, "to");
  return to(device(), dtype, non_blocking);
}

Tensor Tensor::to(MemoryFormat format) const {
  check_defined(*this, "to");
  if (format == MemoryFormat::preserve) return *this;
  // If the memory is in both formats, as with one channel, the result gets the strides of the
  // requested one, because a convolution decides by them.
  const bool there = is_contiguous(format) && (suggest_memory_format() == format ||
                                               strides() == strides_of(shape(), format));
  return there ? *this : clone(format);
}

Tensor Tensor::to(const TensorOptions& options, bool non_blocking) const {
  FERRITE_CHECK(!options.pinned && !options.requires_grad, ValueError, "to",
                "takes a device, a dtype and a memory format; call pin_memory() or "
                "requires_grad_() on the result");
  const Tensor out = to(options.device, options.dtype.value_or(dtype()), non_blocking);
  return options.memory_format == kContiguous ? out : out.to(options.memory_format);
}

Tensor Tensor::to(const TensorOptionsBuilder& options, bool non_blocking) const {
  const TensorOptions all =
      options.over({.dtype = dtype(), .device = device(), .memory_format = MemoryFormat::preserve});
  const Tensor out = to(all, non_blocking);
  return all.memory_format == kContiguous ? out.to(kContiguous) : out;
}

Tensor Tensor::pin_memory() const {
  check_defined(*this, "pin_memory");
  FERRITE_CHECK(device().is_cpu(), DeviceError, "pin_memory",
                "only memory of the host can be pinned, got {}", describe());
  if (is_pinned()) return *this;
  const profiler::OpRange range("pin_memory", *this);
  Tensor out = empty(shape(), {.dtype = dtype(),
                               .device = kCPU,
                               .memory_format = resolve(MemoryFormat::preserve, *this),
                               .pinned = true});
  transfer(out, *this, false, "pin_memory");
  if (recording(*this))
    record(out, "pin_memory", {*this}, [](const Tensor& grad, Needs) { return grad; });
  return out;
}

// ---- contiguous, clone

Tensor Tensor::contiguous(MemoryFormat format) const {
  check_defined(*this, "contiguous");
  FERRITE_CHECK(format != MemoryFormat::preserve, ValueError, "contiguous",
                "expected contiguous or channels_last, got preserve");
  return is_contiguous(format) ? *this : clone(format);
}

Tensor Tensor::clone(MemoryFormat format) const {
  if (tracing::on()) return tracing::op("clone", {*this}, {}, [&] { return clone(format); });
  const profiler::OpRange range("clone", *this);
  check_defined(*this, "clone");
  Tensor out = converted(*this, device(), dtype(), format, true, "clone");
  if (recording(*this))
    record(out, "clone", {*this}, [](const Tensor& grad, Needs) { return grad; });
  return out;
}

// ---- copy_: the old values are overwritten, so they have no gradient.

const Tensor& Tensor::copy_(const Tensor& source, bool non_blocking) const {
  if (tracing::on())
    return tracing::op("copy_", {*this, source}, {},
                       [&]() -> const Tensor& { return copy_(source, non_blocking); });
  const profiler::OpRange range("copy_", *this, source);
  check_defined(*this, "copy_");
  check_defined(source, "copy_");
  FERRITE_CHECK(broadcast_shapes(shape(), source.shape(), "copy_") == shape(), ShapeError, "copy_",
                "a source of {} does not broadcast to {}", source.shape(), shape());
  autograd::check_inplace(*this, "copy_");
  if (is_same(source)) return *this;
  if (source.is_complex() && dtype() == kBool) return copy_(ferrite::ne(source, 0), non_blocking);
  const Tensor from =
      geometry::may_overlap(*this, source) ? no_grad([&] { return source.clone(); }) : source;
  transfer(*this,
           from.shape() == shape() ? from : geometry::apply(from, geometry::expand(from, shape())),
           non_blocking, "copy_");
  autograd::changed_inplace(*this, "copy_");
  if (is_differentiable(dtype()) && recording(*this, source))
    autograd::record_inplace(*this, "copy_", {*this, source},
                             [like = Like(source)](const Tensor& grad, Needs needs) -> Gradients {
                               return {Tensor(), needs[1] ? like.reduce(grad) : Tensor()};
                             });
  return *this;
}

}  // namespace ferrite
