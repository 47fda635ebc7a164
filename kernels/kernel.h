// Kernels: functions with an implementation for every kind of device.
//
//   // kernels/softmax.h
//   FERRITE_KERNEL(softmax, SoftmaxKind kind, const View& out, const View& in, int dim);
//   // kernels/cpu/softmax.cpp
//   void cpu::softmax(SoftmaxKind kind, const View& out, const View& in, int dim) { ... }
//   // kernels/cuda/softmax.cu
//   void cuda::softmax(const Stream& stream, SoftmaxKind kind, const View& out, ...) { ... }
//
// kernels::softmax(stream, kind, out, in, dim) then runs the implementation for the device of
// `stream`. The one in cpu:: runs as work of the stream; the one in cuda:: is called at once and
// launches its kernels on the stream. Programs declare their own kernels in the same way, in any
// namespace.
#pragma once

#include "ferrite/kernels/view.h"

/// Declares cpu::name(params...), cuda::name(stream, params...) and the function that chooses
/// between them. Profiles show it as `name`, or by the op's name if the first parameter is `const
/// char* op`.
#define FERRITE_KERNEL(name, ...) FERRITE_KERNEL_OF(#name, name, __VA_ARGS__)
/// Like FERRITE_KERNEL, for one of several kernels of an op: profiles show it as `op`.
#define FERRITE_KERNEL_OF(op, name, ...) \
  FERRITE_BACKENDS(name, __VA_ARGS__)    \
  inline constexpr ::ferrite::kernels::Kernel<cpu::name, cuda::name> name { op }
/// Declares the three as ordinary functions, which may be overloaded and have default arguments.
/// The CPU source file defines the choosing function, which checks the arguments if necessary and
/// ends in launch().
#define FERRITE_KERNEL_FUNCTION(name, ...) \
  FERRITE_BACKENDS(name, __VA_ARGS__)      \
  void name(const ::ferrite::Stream& stream, __VA_ARGS__)

/// Declares cpu::name(params...) and cuda::name(stream, params...).
#define FERRITE_BACKENDS(name, ...)                        \
  namespace cpu {                                          \
  void name(__VA_ARGS__);                                  \
  }                                                        \
  namespace cuda {                                         \
  void name(const ::ferrite::Stream& stream, __VA_ARGS__); \
  }

namespace ferrite::kernels {

/// A kernel, by its implementations for the host and for CUDA devices.
template <auto on_cpu, auto on_cuda>
class Kernel;

/// A function object that runs one of two implementations, by the device of its stream:
/// on_cpu(args...) for the host and its virtual devices, on_cuda(stream, args...) for a GPU.
/// FERRITE_KERNEL declares one. Both have the same parameters besides the stream.
template <class... Args, void (*on_cpu)(Args...), void (*on_cuda)(const Stream&, Args...)>
class Kernel<on_cpu, on_cuda> {
 public:
  /// Profiles show the kernel as `op`.
  constexpr explicit Kernel(const char* op) : op_(op) {}
  /// Runs the kernel on the device of `stream`; DTypeError for a complex view.
  void operator()(const Stream& stream, Args... args) const;

 private:
  static const char* op(const char* op, const auto&...) { return op; }
  static const char* op(const char*, const char* op, const auto&...) { return op; }
  const char* op_;
};

}  // namespace ferrite::kernels

#if !defined(__CUDACC__)  // CUDA sources compile faster without the calling code

#include <tuple>

#include "ferrite/core/profiler/range.h"
#include "ferrite/core/stream.h"
#include "ferrite/kernels/cuda/op_scope.h"

namespace ferrite::kernels {

#if !defined(FERRITE_HAVE_CUDA)
#error "FERRITE_HAVE_CUDA is not defined: link the CMake target ferrite::ferrite, which defines it"
#endif
/// Whether the library was built with CUDA.
inline constexpr bool kHaveCuda = FERRITE_HAVE_CUDA != 0;

namespace detail {
inline void check_real(const char* op, const View& v) {
  if (is_complex(v.dtype)) [[unlikely]]
    ferrite::detail::fail_type(op, v.dtype);
}
inline void check_real(const char*, const auto&) {}
}  // namespace detail

/// Runs a kernel on the device of `stream`. Queued work holds copies of the arguments; the memory
/// they point to must outlive it. A build without CUDA has no streams of CUDA devices and never
/// refers to `on_cuda`, which need not exist.
template <auto on_cpu, auto on_cuda, class... Args>
void launch_any(const Stream& stream, const char* op, const Args&... args) {
  if (stream.device().is_cpu()) [[likely]] {
    const profiler::detail::KernelRange range(stream, op);
    if (stream.impl()->runs_inline) [[likely]]
      on_cpu(args...);
    else
      stream.enqueue([copies = std::tuple<Args...>(args...)] { std::apply(on_cpu, copies); });
  } else if constexpr (kHaveCuda) {
    const cuda::OpScope scope(stream, op);
    on_cuda(stream, args...);
  }
}

/// The same for a kernel of real numbers. A complex view is a DTypeError.
template <auto on_cpu, auto on_cuda, class... Args>
void launch(const Stream& stream, const char* op, const Args&... args) {
  (detail::check_real(op, args), ...);
  launch_any<on_cpu, on_cuda>(stream, op, args...);
}

/// Runs the kernel of the stream's device.
template <class... Args, void (*on_cpu)(Args...), void (*on_cuda)(const Stream&, Args...)>
void Kernel<on_cpu, on_cuda>::operator()(const Stream& stream, Args... args) const {
  launch<on_cpu, on_cuda>(stream, op(op_, args...), args...);
}

}  // namespace ferrite::kernels

#endif
