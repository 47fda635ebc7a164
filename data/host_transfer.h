// Bytes between dense tensors of any device and the host.
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

/// Copies on the calling thread's current streams. CUDA memory goes piece by piece through two
/// page-locked buffers of at most 8 MiB each, one being copied while the host works on the other.
/// To be used by one thread.
class HostTransfer {
 public:
  static constexpr std::size_t kPiece = std::size_t{8} << 20;
  using Sink = std::function<void(const void* data, std::size_t bytes)>;

  /// Hands over the bytes of a row-major tensor, in order. The memory of virtual devices is handed
  /// over as it is: wait for them before.
  void read(const Tensor& tensor, const Sink& sink);
  /// Fills a row-major tensor. `bytes` must stay until finish() returns, and be as many as the
  /// tensor has.
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

/// A copy of a tensor on the host that is complete once wait() has returned: the values it had for
/// the calling thread's current stream, whatever is queued after. Strides stay as they are. CUDA
/// memory is copied to page-locked memory, and the caller does not wait for it; the host's is
/// copied at once. CudaError while the stream is being captured into a graph.
class HostSnapshot {
 public:
  explicit HostSnapshot(std::string_view op) : op_(op) {}
  /// Copies that are under way keep their memory.
  ~HostSnapshot();
  HostSnapshot(const HostSnapshot&) = delete;
  HostSnapshot& operator=(const HostSnapshot&) = delete;

  Tensor add(const Tensor& tensor);
  /// After all are added.
  void seal();
  /// From any thread, whose waits are then nobody's training step (cuda::BackgroundWaits). Throws
  /// what the device failed with.
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
