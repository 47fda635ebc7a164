#include "ferrite/ops/transfer.h"

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/stream.h"
#include "ferrite/kernels/copy.h"

namespace ferrite::ops {

using ferrite::detail::cuda::is_capturing;

namespace {

constexpr std::size_t kLargestStaged = std::size_t{32} << 20;  // through pinned memory

bool is_dense(const Tensor& t, MemoryFormat format) { return t.is_contiguous(format); }

/// The common layout for the transfer: that of `out` if it is dense.
MemoryFormat crossing_format(const Tensor& out) { return out.suggest_memory_format(); }

/// The dtype that needs fewer bytes to transfer; `otherwise` on ties.
DType crossing_dtype(const Tensor& out, const Tensor& in, DType otherwise) {
  if (out.itemsize() == in.itemsize()) return otherwise;
  return out.itemsize() < in.itemsize() ? out.dtype() : in.dtype();
}

/// `t` itself if it is dense and of `dtype`, else undefined.
Tensor as_it_is(const Tensor& t, DType dtype, MemoryFormat format) {
  return t.dtype() == dtype && is_dense(t, format) ? t : Tensor();
}

/// `t` with contiguous memory; packed into a temporary on its own device and stream if necessary.
Tensor packed(const Tensor& t, DType dtype, MemoryFormat format) {
  if (Tensor same = as_it_is(t, dtype, format); same.defined()) return same;
  Tensor run = empty(t.shape(), {.dtype = dtype, .device = t.device(), .memory_format = format});
  kernels::copy(current_stream(t.device()), run, t);
  return run;
}

void cross(const Stream& stream, const Tensor& to, const Tensor& from) {
  ferrite::detail::cuda::copy_bytes(stream, to.data_ptr(), to.device(), from.data_ptr(),
                                    from.device(), from.nbytes());
}

void check_not_captured(const Stream& stream, const char* op, const char* what) {
  FERRITE_CHECK(!is_capturing(stream), CudaError, op,
                "{} cannot become part of a graph that is being captured; copy before the capture, "
                "or between pinned memory and the device with non_blocking",
                what);
}

/// For two devices that cannot both be part of a graph: it would be replayed without the other's
/// work.
void check_one_graph(const Stream& from, const Stream& to, const char* op) {
  if (is_capturing(from) == is_capturing(to)) return;
  FERRITE_CHECK(from.device().is_host() || to.device().is_host(), CudaError, op,
                "a copy from {} to {} cannot become part of a graph of one of them that is being "
                "captured; copy before the capture or after a replay",
                from.device(), to.device());
}

void host_to_device(const Tensor& out, const Tensor& in, bool non_blocking, const char* op) {
  const Stream from = current_stream(in.device()), to = current_stream(out.device());
  const DType dtype = crossing_dtype(out, in, in.dtype());
  const MemoryFormat format = crossing_format(out);
  Tensor run = as_it_is(in, dtype, format);
  if (!non_blocking) check_not_captured(to, op, "a copy from the host that waits");
  if (!run.defined() || !run.is_pinned()) {
    check_not_captured(to, op, "a copy from memory that is not pinned or not dense");
    const std::size_t bytes = static_cast<std::size_t>(in.numel()) * itemsize(dtype);
    if (bytes <= kLargestStaged) {
      run = empty(in.shape(),
                  {.dtype = dtype, .device = kCPU, .memory_format = format, .pinned = true});
      kernels::copy(from, run, in);
      run.storage()->record_stream(from);
    } else if (!run.defined()) {
      run = packed(in, dtype, format);
    }
  }
  Tensor landed = as_it_is(out, dtype, format);
  if (!landed.defined())
    landed = empty(out.shape(), {.dtype = dtype, .device = out.device(), .memory_format = format});
  to.wait(from);
  cross(to, landed, run);
  run.storage()->record_stream(to);
  if (!landed.is_same(out)) kernels::copy(to, out, landed);
  if (!run.shares_storage(in)) return;
  if (!in.device().is_host())
    from.wait(to);  // later work of the source may change it
  else if (!non_blocking)
    to.synchronize();
}

void device_to_host(const Tensor& out, const Tensor& in, bool non_blocking, const char* op) {
  const Stream from = current_stream(in.device()), to = current_stream(out.device());
  // Without waiting, the host cannot convert.
  const DType dtype = non_blocking ? out.dtype() : crossing_dtype(out, in, out.dtype());
  const MemoryFormat format = crossing_format(out);
  Tensor landed = as_it_is(out, dtype, format);
  const bool blocks = out.device().is_host() && !(non_blocking && landed.defined());
  if (blocks) {
    check_not_captured(from, op, "a copy to the host that waits");
    ferrite::cuda::detail::check_may_wait(op);
  } else if (landed.defined() && !landed.is_pinned()) {
    check_not_captured(from, op, "a copy to memory that is not pinned");
  }
  const Tensor run = packed(in, dtype, format);
  if (!landed.defined()) {
    const bool pinned = run.nbytes() <= kLargestStaged;
    landed = empty(out.shape(),
                   {.dtype = dtype, .device = kCPU, .memory_format = format, .pinned = pinned});
  }
  from.wait(to);  // queued work there may still use the memory of `out`
  cross(from, landed, run);
  landed.storage()->record_stream(from);
  if (blocks)
    from.synchronize();
  else if (!out.device().is_host())
    to.wait(from);
  if (landed.is_same(out)) return;
  kernels::copy(to, out, landed);
  landed.storage()->record_stream(to);
}

void device_to_device(const Tensor& out, const Tensor& in) {
  const Stream from = current_stream(in.device()), to = current_stream(out.device());
  const DType dtype = crossing_dtype(out, in, out.dtype());
  const MemoryFormat format = crossing_format(out);
  const Tensor run = packed(in, dtype, format);
  Tensor landed = as_it_is(out, dtype, format);
  if (!landed.defined())
    landed = empty(out.shape(), {.dtype = dtype, .device = out.device(), .memory_format = format});
  to.wait(from);
  cross(to, landed, run);
  run.storage()->record_stream(to);
  if (run.shares_storage(in)) from.wait(to);  // later work of the source may change it
  if (!landed.is_same(out)) kernels::copy(to, out, landed);
}

/// Between the host and its virtual devices, on the destination's stream.
void host_to_host(const Tensor& out, const Tensor& in, bool non_blocking) {
  const Stream to = current_stream(out.device()), from = current_stream(in.device());
  to.wait(from);
  kernels::copy(to, out, in);
  in.storage()->record_stream(to);
  if (!in.device().is_host())
    from.wait(to);  // later work of the source may change it
  else if (!non_blocking)
    to.synchronize();
}

}  // namespace

void transfer(const Tensor& out, const Tensor& in, bool non_blocking, const char* op) {
  const Device &to = out.device(), &from = in.device();
  if (to == from) return kernels::copy(current_stream(to), out, in);
  if (out.numel() == 0) return;
  check_one_graph(current_stream(from), current_stream(to), op);
  if (to.is_cuda() && from.is_cuda()) return device_to_device(out, in);
  if (to.is_cuda()) return host_to_device(out, in, non_blocking, op);
  if (from.is_cuda()) return device_to_host(out, in, non_blocking, op);
  host_to_host(out, in, non_blocking);
}

}  // namespace ferrite::ops
