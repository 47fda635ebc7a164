// Streams of CUDA devices.
//
// The default stream of a device is a stream of its own and not CUDA's legacy default stream, which
// cannot be captured into a graph. It is made a blocking one, so that work which a program or a
// library puts on the legacy stream is ordered with it on both sides: kernels launched as
// kernel<<<grid, block>>>() see what Ferrite's ops have written. Streams of the pool are not
// ordered with the legacy stream, so that nothing holds up their overlap.
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
  /// What kernels on this stream report goes to the slot of `stream`, whose users wait for it.
  void report_to(const CudaStream& stream) { reports_to_ = stream.report_; }
  bool is_capturing() const;
  /// The id of the capture that this stream is part of; 0 where it is part of none.
  unsigned long long capture_id() const;
  /// Throws what kernels reported and functions threw; for those who have waited for the stream.
  void throw_errors();

 private:
  struct Task;
  static void run(void* task);
  void let_go_of_finished();

  const cudaStream_t native_;
  DeviceReport* const report_;
  DeviceReport* reports_to_ = report_;
  std::mutex mutex_;
  // Destroyed by those who submit and synchronize: what a function holds may need CUDA to go.
  std::vector<std::unique_ptr<Task>> finished_;
  std::exception_ptr error_;
};

/// DeviceError unless `stream` is of a CUDA device.
CudaStream& cuda_stream(const Stream& stream);

}  // namespace ferrite::cuda::detail
