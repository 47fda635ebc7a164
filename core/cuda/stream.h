// Streams of CUDA devices.
//
// The default stream of a device is a stream of its own and not CUDA's legacy default stream, which
// cannot be captured into a graph. It is created as a blocking stream, so that work which a program
// or a library puts on the legacy stream is ordered with it in both directions: kernels launched as
// kernel<<<grid, block>>>() see what Ferrite's ops have written. Streams of the pool are not
// ordered with the legacy stream, so that they can overlap freely.
#pragma once

#include <cuda_runtime_api.h>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ferrite/core/cuda/report.h"
#include "ferrite/core/stream.h"

namespace ferrite::cuda::detail {

using ferrite::detail::Mark;
using ferrite::detail::Timing;

class CudaStream final : public ferrite::detail::StreamImpl {
 public:
  CudaStream(Device device, cudaStream_t native, DeviceReport* report);
  ~CudaStream() override;

  void submit(std::function<void()> work) override;
  void synchronize() override;
  bool idle() const override;
  std::shared_ptr<Mark> record(Timing timing) override;
  void wait(const std::shared_ptr<Mark>& mark) override;

  cudaStream_t native() const { return native_; }
  DeviceReport* report() const { return reports_to_; }
  /// Redirects kernel reports of this stream to the slot of `stream`, whose users wait for it.
  void report_to(const CudaStream& stream) { reports_to_ = stream.report_; }
  bool is_capturing() const;
  /// The id of the capture that this stream is part of; 0 if it is not being captured.
  unsigned long long capture_id() const;
  /// Throws errors that kernels reported and functions threw. Call it after waiting for the stream.
  void throw_errors();

 private:
  struct Task;
  static void run(void* task);
  void let_go_of_finished();

  const cudaStream_t native_;
  DeviceReport* const report_;
  DeviceReport* reports_to_ = report_;
  std::mutex mutex_;
  // Destroyed when work is submitted or synchronized: destroying a function's captures may need
  // CUDA.
  std::vector<std::unique_ptr<Task>> finished_;
  std::exception_ptr error_;
};

/// DeviceError unless `stream` belongs to a CUDA device.
CudaStream& cuda_stream(const Stream& stream);

}  // namespace ferrite::cuda::detail
