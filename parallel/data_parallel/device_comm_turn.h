// One operation on streams of its own, in the order of the devices' current streams.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/stream.h"
#include "core/tensor.h"

namespace ferrite::parallel {

/// Takes the devices' current streams as they are; however the operation ends, what comes later on
/// them waits for what it has queued.
class Turn {
 public:
  /// CudaError, naming `op`, where a current stream is being captured into a graph.
  Turn(const char* op, std::span<const Device> devices, std::span<const Stream> streams);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// The operation's stream of device d; what it does from now on comes after what the current
  /// stream of that device held.
  const Stream& stream(std::size_t d);
  /// As stream(d), after what the current stream of device `other` held, too.
  const Stream& stream_after(std::size_t d, std::size_t other);
  /// What stream `d` does from now on comes after what stream `other` holds.
  void chain(std::size_t d, std::size_t other);
  /// The memory of `t`, on device d, is read: whoever frees it must wait for the current stream.
  void reads(std::size_t d, const Tensor& t) const { t.storage()->record_stream(currents_[d]); }
  /// Keeps memory from the current streams until these wait for the operation.
  void keep(Tensor t) { kept_.push_back(std::move(t)); }
  /// Has the current streams wait for it.
  void end();

 private:
  using Mark = std::shared_ptr<detail::Mark>;
  static Mark mark_of(const Stream& stream);

  std::span<const Stream> streams_;
  std::vector<Stream> currents_;
  std::vector<Mark> marks_;               // of the current streams at the call; null where idle
  std::vector<std::vector<bool>> after_;  // [d][other]: whether stream d waits for it
  std::vector<bool> used_;
  std::vector<Tensor> kept_;
};

}  // namespace ferrite::parallel
