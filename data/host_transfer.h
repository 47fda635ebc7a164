// Copies of bytes between dense tensors of any device and the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"

namespace ferrite::data {

/// Copies on the calling thread's current streams. CUDA memory is copied in pieces through two
/// page-locked buffers of at most 8 MiB each, one being copied while the host processes the other.
/// Not thread-safe.
class HostTransfer {
 public:
  static constexpr std::size_t kPiece = std::size_t{8} << 20;
  using Sink = std::function<void(const void* data, std::size_t bytes)>;

  /// Passes the bytes of a row-major tensor to `sink`, in order. The memory of virtual devices is
  /// passed directly: wait for them first.
  void read(const Tensor& tensor, const Sink& sink);
  /// Fills a row-major tensor. `bytes` must have the size of the tensor and stay valid until
  /// finish() returns.
  void write(const Tensor& tensor, const std::uint8_t* bytes);
  void finish();

 private:
  struct Buffer {
    Tensor memory;
    std::shared_ptr<ferrite::detail::Mark> busy;
  };

  Buffer& next(std::size_t bytes, const Stream& stream);

  std::array<Buffer, 2> buffers_;
  std::size_t turn_ = 0;
  std::vector<Stream> workers_;  // that have been given work
};

/// A copy of a tensor on the host, complete once wait() has returned: the values at this point of
/// the calling thread's current stream, whatever is queued later. Strides are kept. CUDA memory is
/// copied to page-locked memory without blocking the caller; host memory is copied at once.
/// CudaError while the stream is being captured into a graph.
class HostSnapshot {
 public:
  explicit HostSnapshot(std::string_view op) : op_(op) {}
  /// Running copies keep their memory alive.
  ~HostSnapshot();
  HostSnapshot(const HostSnapshot&) = delete;
  HostSnapshot& operator=(const HostSnapshot&) = delete;

  Tensor add(const Tensor& tensor);
  /// Call it after everything is added.
  void seal();
  /// May be called from any thread; its waits do not count as the training loop's
  /// (cuda::BackgroundWaits). Throws errors of the device.
  void wait();

 private:
  struct Copy {
    Tensor memory;
    Stream stream;
  };

  std::string op_;
  std::vector<Copy> under_way_;
  std::vector<std::shared_ptr<ferrite::detail::Mark>> marks_;
};

}  // namespace ferrite::data
