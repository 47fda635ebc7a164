#include "ferrite/data/host_transfer.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "ferrite/core/background_waits.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/views.h"
#include "ferrite/data/host.h"

namespace ferrite::data {

namespace cuda_backend = ferrite::detail::cuda;
using ferrite::detail::Timing;

namespace {

void note(std::vector<Stream>& streams, const Stream& stream) {
  if (std::ranges::find(streams, stream) == streams.end()) streams.push_back(stream);
}

}  // namespace

// ---- HostTransfer

/// The next buffer in turn, once it is no longer in use.
HostTransfer::Buffer& HostTransfer::next(std::size_t bytes, const Stream& stream) {
  Buffer& buffer = buffers_[turn_];
  turn_ = 1 - turn_;
  if (buffer.busy) {
    buffer.busy->wait();
    buffer.busy.reset();
  }
  if (!buffer.memory.defined() || buffer.memory.nbytes() < bytes)
    buffer.memory = empty({static_cast<std::int64_t>(bytes)},
                          {.dtype = kUInt8, .device = kCPU, .pinned = true});
  // If anything fails from here on, the memory is not reused before the copy is done.
  buffer.memory.storage()->record_stream(stream);
  return buffer;
}

void HostTransfer::read(const Tensor& tensor, const Sink& sink) {
  const std::size_t total = tensor.nbytes();
  if (total == 0) return;
  if (tensor.device().is_cpu()) return sink(tensor.data_ptr(), total);
  const Stream stream = current_stream(tensor.device());
  struct Piece {
    Buffer* buffer;
    std::size_t bytes;
  };
  const auto deliver = [&](const Piece& piece) {
    piece.buffer->busy->wait();
    piece.buffer->busy.reset();
    sink(piece.buffer->memory.data_ptr(), piece.bytes);
  };
  std::optional<Piece> before;
  for (std::size_t at = 0; at < total; at += kPiece) {
    const std::size_t bytes = std::min(kPiece, total - at);
    Buffer& buffer = next(bytes, stream);
    cuda_backend::copy_bytes(stream, buffer.memory.data_ptr(), Device(),
                             static_cast<const char*>(tensor.data_ptr()) + at, tensor.device(),
                             bytes);
    buffer.busy = stream.impl()->record(Timing::none);
    if (before) deliver(*before);
    before = Piece{&buffer, bytes};
  }
  deliver(*before);
}

void HostTransfer::write(const Tensor& tensor, const std::uint8_t* bytes) {
  const std::size_t total = tensor.nbytes();
  if (total == 0) return;
  const Stream stream = current_stream(tensor.device());
  if (tensor.device().is_cpu()) {
    note(workers_, stream);
    stream.enqueue([tensor, bytes, total] { std::memcpy(tensor.data_ptr(), bytes, total); });
    return;
  }
  for (std::size_t at = 0; at < total; at += kPiece) {
    const std::size_t piece = std::min(kPiece, total - at);
    Buffer& buffer = next(piece, stream);
    std::memcpy(buffer.memory.data_ptr(), bytes + at, piece);
    cuda_backend::copy_bytes(stream, static_cast<char*>(tensor.data_ptr()) + at, tensor.device(),
                             buffer.memory.data_ptr(), Device(), piece);
    buffer.busy = stream.impl()->record(Timing::none);
  }
}

void HostTransfer::finish() {
  for (Buffer& buffer : buffers_)
    if (buffer.busy) {
      buffer.busy->wait();
      buffer.busy.reset();
    }
  for (const Stream& worker : std::exchange(workers_, {})) worker.synchronize();
}

// ---- HostSnapshot

Tensor HostSnapshot::add(const Tensor& tensor) {
  const Device& device = tensor.device();
  const Stream stream = current_stream(device);
  FERRITE_CHECK(!device.is_cuda() || !cuda_backend::is_capturing(stream), CudaError, op_,
                "the stream of {} is being captured into a graph: its values are not there yet. "
                "Save before the capture or after a replay",
                device);
  if (stream.impl()->runs_inline)  // work on it is never queued
    return gather_strided(tensor.data_ptr(), tensor.shape(), tensor.strides(), tensor.dtype());
  std::int64_t reach = tensor.numel() > 0;
  for (int d = 0; d < tensor.dim() && reach > 0; ++d)
    reach += (tensor.shape()[d] - 1) * tensor.strides()[d];
  const Tensor flat =
      empty({reach}, {.dtype = tensor.dtype(), .device = kCPU, .pinned = device.is_cuda()});
  if (reach > 0) {
    const std::size_t bytes = flat.nbytes();
    // First, because nothing may fail between the copy and these.
    under_way_.push_back({flat, stream});
    tensor.storage()->record_stream(stream);
    if (device.is_cuda())
      cuda_backend::copy_bytes(stream, flat.data_ptr(), Device(), tensor.data_ptr(), device, bytes);
    else
      stream.enqueue([to = flat.data_ptr(), from = tensor.data_ptr(), bytes] {
        std::memcpy(to, from, bytes);
      });
  }
  return geometry::as_strided(flat, tensor.shape(), tensor.strides(), 0);
}

void HostSnapshot::seal() {
  std::vector<Stream> streams;
  for (const Copy& copy : under_way_) note(streams, copy.stream);
  for (const Stream& stream : streams) marks_.push_back(stream.impl()->record(Timing::none));
}

void HostSnapshot::wait() {
  const cuda::BackgroundWaits scope;
  for (const auto& mark : marks_) mark->wait();
  // When freed from here on, the memory need not query the streams, which may be in a capture by
  // then.
  under_way_.clear();
}

HostSnapshot::~HostSnapshot() {
  for (const Copy& copy : under_way_) copy.memory.storage()->record_stream(copy.stream);
}

}  // namespace ferrite::data
