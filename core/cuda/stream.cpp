#include "ferrite/core/cuda/stream.h"

#include <algorithm>
#include <utility>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda/context.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/deferred.h"
#include "ferrite/core/error.h"
#include "ferrite/core/late_errors.h"

namespace ferrite::cuda {

namespace detail {

namespace {

/// An event of a CUDA stream.
class CudaMark final : public Mark {
 public:
  CudaMark(const CudaStream& stream, Timing timing)
      : device_(stream.device.index()),
        timing_(timing),
        captured_(stream.is_capturing()),
        event_(context(device_).events().take(timing)) {
    const DeviceGuard guard(device_);
    const cudaError_t status = cudaEventRecord(event_, stream.native());
    if (status == cudaSuccess) return;
    context(device_).events().give_back(event_, timing_);
    fail_call(status, "cudaEventRecord");
  }
  ~CudaMark() override { context(device_).events().give_back(event_, timing_); }

  cudaEvent_t event() const { return event_; }
  bool is_captured() const { return captured_; }

  /// Called when memory is freed, so it must neither throw nor wait for a lost device, where no
  /// work runs any more.
  bool passed() override {
    if (captured_) return false;  // an edge of a graph; a query would invalidate the capture
    try {
      const DeviceGuard guard(device_);
      const CaptureRelaxed relaxed;
      const cudaError_t status = cudaEventQuery(event_);
      if (status == cudaSuccess) return true;
      cudaGetLastError();
      return status != cudaErrorNotReady;
    } catch (const CudaError&) {
      return true;
    }
  }

  void wait() override {
    FERRITE_CHECK(!captured_, CudaError, "synchronize",
                  "the event is part of a graph that was captured, which does not run when it is "
                  "recorded; wait for the stream of a replay");
    const DeviceGuard guard(device_);
    const CaptureRelaxed relaxed;
    about_to_wait("synchronize");
    FERRITE_CUDA_CHECK(cudaEventSynchronize(event_));
  }

  std::optional<double> milliseconds_since(Mark& start) override {
    auto* first = dynamic_cast<CudaMark*>(&start);
    float elapsed = 0;
    if (!first || first->device_ != device_) return std::nullopt;
    if (cudaEventElapsedTime(&elapsed, first->event_, event_) == cudaSuccess) return elapsed;
    cudaGetLastError();
    return std::nullopt;
  }

 private:
  const int device_;
  const Timing timing_;
  const bool captured_;
  const cudaEvent_t event_;
};

}  // namespace

struct CudaStream::Task {
  CudaStream& stream;
  std::function<void()> work;
};

CudaStream::CudaStream(Device device, cudaStream_t native, DeviceReport* report)
    : StreamImpl(device, ferrite::detail::next_stream_id(), false),
      native_(native),
      report_(report) {}

CudaStream::~CudaStream() = default;  // the driver destroys the handle as the process ends

bool CudaStream::is_capturing() const {
  const DeviceGuard guard(device);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  FERRITE_CUDA_CHECK(cudaStreamIsCapturing(native_, &status));
  return status != cudaStreamCaptureStatusNone;
}

unsigned long long CudaStream::capture_id() const {
  const DeviceGuard guard(device);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  FERRITE_CUDA_CHECK(cudaStreamGetCaptureInfo(native_, &status, &id));
  return status == cudaStreamCaptureStatusActive ? id : 0;
}

void CudaStream::run(void* task) {
  std::unique_ptr<Task> mine(static_cast<Task*>(task));
  CudaStream& stream = mine->stream;
  std::exception_ptr error;
  try {
    const ferrite::detail::RunningIn scope(&stream);
    mine->work();
  } catch (...) {
    error = std::current_exception();
  }
  std::lock_guard lock(stream.mutex_);
  if (error && !stream.error_) stream.error_ = std::move(error);
  stream.finished_.push_back(std::move(mine));
}

void CudaStream::submit(std::function<void()> work) {
  let_go_of_finished();
  const DeviceGuard guard(device);
  FERRITE_CHECK(!is_capturing(), CudaError, "enqueue",
                "a function of the host cannot become part of a graph that is being captured");
  auto task = std::make_unique<Task>(Task{*this, std::move(work)});
  FERRITE_CUDA_CHECK(cudaLaunchHostFunc(native_, &CudaStream::run, task.get()));
  task.release();  // owned by the queued call from here on; run() takes it
}

void CudaStream::let_go_of_finished() {
  std::vector<std::unique_ptr<Task>> finished;
  std::lock_guard lock(mutex_);
  finished.swap(finished_);
}

void CudaStream::synchronize() {
  // Work that waits for its own stream can only mean the work queued before it, which has run.
  if (ferrite::detail::running_in(this)) return;
  const DeviceGuard guard(device);
  FERRITE_CHECK(!is_capturing(), CudaError, "synchronize",
                "the stream is being captured into a graph: its work has not begun, and its values "
                "cannot be read; do this before the capture or after a replay");
  about_to_wait("synchronize");
  FERRITE_CUDA_CHECK(cudaStreamSynchronize(native_));
  let_go_of_finished();
  ferrite::detail::run_passed();
  throw_errors();
}

void CudaStream::throw_errors() {
  std::exception_ptr error;
  {
    std::lock_guard lock(mutex_);
    error = std::exchange(error_, nullptr);
  }
  if (error) std::rethrow_exception(std::move(error));
  throw_report(*report_);
}

bool CudaStream::idle() const {
  try {
    if (is_capturing()) return false;
    const DeviceGuard guard(device);
    const detail::CaptureRelaxed relaxed;  // of another stream, by this thread
    const cudaError_t status = cudaStreamQuery(native_);
    if (status == cudaSuccess) return true;
    cudaGetLastError();
    return status != cudaErrorNotReady;
  } catch (const CudaError&) {
    return true;  // a lost device has no work left
  }
}

std::shared_ptr<Mark> CudaStream::record(Timing timing) {
  return std::make_shared<CudaMark>(*this, timing);
}

void CudaStream::wait(const std::shared_ptr<Mark>& mark) {
  // For a worker's mark the caller blocks. A host function on the stream could wait instead, but
  // all host functions share one thread of the driver: one that waits would stop those of the other
  // streams, which the worker may in turn be waiting for.
  auto* event = dynamic_cast<CudaMark*>(mark.get());
  if (!event) return mark->wait();
  const DeviceGuard guard(device);
  // The runtime would invalidate the whole capture.
  FERRITE_CHECK(event->is_captured() || !is_capturing(), CudaError, "wait",
                "the stream is being captured into a graph, which cannot wait for work outside of "
                "it; have that in the capture too (forward as well as backward), or done before");
  FERRITE_CUDA_CHECK(cudaStreamWaitEvent(native_, event->event(), 0));
}

CudaStream& cuda_stream(const Stream& stream) {
  FERRITE_CHECK(stream.device().is_cuda(), DeviceError, "stream",
                "expected a stream of a CUDA device, got one of {}", stream.device());
  return static_cast<CudaStream&>(*stream.impl());
}

}  // namespace detail

cudaStream_t native_stream(const Stream& stream) { return detail::cuda_stream(stream).native(); }

DeviceReport* report_slot(const Stream& stream) { return detail::cuda_stream(stream).report(); }

}  // namespace ferrite::cuda

// ---- core/cuda_backend.h

namespace ferrite::detail::cuda {

using ferrite::cuda::detail::context;
using ferrite::cuda::detail::CudaStream;

StreamImpl* default_stream(int device) { return &context(device).default_stream(); }

StreamImpl* pooled_stream(int device, StreamPriority priority) {
  return &context(device).pooled_stream(priority);
}

void drain(int device) {
  const ferrite::cuda::DeviceGuard guard(device);
  ferrite::cuda::detail::about_to_wait("synchronize");
  FERRITE_CUDA_CHECK(cudaDeviceSynchronize());
}

void synchronize(int device) {
  FERRITE_CHECK(
      std::ranges::none_of(context(device).streams(), &CudaStream::is_capturing), CudaError,
      "synchronize",
      "a stream of cuda:{} is being captured into a graph, so that its work has not begun; do this "
      "before the capture or after a replay",
      device);
  drain(device);
  std::exception_ptr error;
  for (CudaStream* stream : context(device).streams()) {
    try {
      stream->throw_errors();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  run_passed();
  if (error) std::rethrow_exception(error);
}

void throw_late_errors(StreamImpl& stream) { static_cast<CudaStream&>(stream).throw_errors(); }

bool is_capturing(const Stream& stream) {
  return stream.device().is_cuda() && ferrite::cuda::detail::cuda_stream(stream).is_capturing();
}

std::uint64_t capture_id(const Stream& stream) {
  return stream.device().is_cuda() ? ferrite::cuda::detail::cuda_stream(stream).capture_id() : 0;
}

}  // namespace ferrite::detail::cuda
